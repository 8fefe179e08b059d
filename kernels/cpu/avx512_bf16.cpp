#include "kernels/cpu/products.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#else
#include <cstdlib>
#endif

namespace weir::kernels::cpu {

std::size_t bf16_row_bytes(std::int64_t depth) {
  return row_stride(static_cast<std::size_t>(depth) * sizeof(std::uint16_t));
}

#if defined(__x86_64__)

#define WEIR_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define WEIR_AVX512_INLINE WEIR_AVX512 __attribute__((always_inline)) inline

namespace {

constexpr int k_streamed_rows = 2;   // up to which a tile reads column after column
constexpr std::int64_t k_step = 32;  // bf16 of one vector
constexpr int k_tile_rows = 6;       // 24 sums, the weights of four columns and a row's values: 29 registers

WEIR_AVX512_INLINE __m512bh load(const std::uint16_t* p) {
  return reinterpret_cast<__m512bh>(_mm512_loadu_si512(p));
}

WEIR_AVX512_INLINE __m512bh load_some(const std::uint16_t* p, std::int64_t count) {
  return reinterpret_cast<__m512bh>(_mm512_maskz_loadu_epi16((__mmask32{1} << count) - 1, p));
}

// The totals of four vectors, in order.
WEIR_AVX512_INLINE __m128 totals(__m512 a, __m512 b, __m512 c, __m512 d) {
  const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
  const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
  const __m512 all = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xEE));
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
  return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

template <int Rows, int Cols>
WEIR_AVX512_INLINE void add_step(const std::uint16_t* a, std::int64_t row_halves,
                                 const __m512bh (&right)[Cols], __m512 (&sum)[Rows][Cols]) {
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
    const __m512bh left = load(a + r * row_halves);
#pragma GCC unroll 4
    for (int n = 0; n < Cols; ++n) sum[r][n] = _mm512_dpbf16_ps(sum[r][n], left, right[n]);
  }
}

// One pass along the depth.
template <int Rows, int Cols>
WEIR_AVX512_INLINE void add_columns(const tile_place& t, const std::uint16_t* b, __m512 (&sum)[Rows][Cols]) {
  const auto* a = reinterpret_cast<const std::uint16_t*>(t.rows);
  const auto row_halves = static_cast<std::int64_t>(t.row_bytes / sizeof(std::uint16_t));
  const auto* ahead = reinterpret_cast<const std::uint16_t*>(t.ahead);
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < Cols; ++n) sum[r][n] = _mm512_setzero_ps();
  }
  __m512bh right[Cols];
  std::int64_t k = 0;
  for (; k + k_step <= t.depth; k += k_step) {
#pragma GCC unroll 4
    for (int n = 0; n < Cols; ++n) right[n] = load(b + n * t.depth + k);
    add_step(a + k, row_halves, right, sum);
    if constexpr (Cols > 1) {
      for (int n = 0; n < t.ahead_columns; ++n) fetch(ahead + n * t.depth + k);
    }
  }
  if (k < t.depth) {
#pragma GCC unroll 4
    for (int n = 0; n < Cols; ++n) right[n] = load_some(b + n * t.depth + k, t.depth - k);
    add_step(a + k, row_halves, right, sum);
  }
}

template <int Rows, int Cols>
WEIR_AVX512 void tile(const tile_place& t) {
  const auto* b = reinterpret_cast<const std::uint16_t*>(t.weights);
  __m512 sum[Rows][Cols];
  if constexpr (Rows <= k_streamed_rows) {
#pragma GCC unroll 4
    for (int n = 0; n < Cols; ++n) {
      __m512 one[Rows][1];
      add_columns(t, b + n * t.depth, one);
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) sum[r][n] = one[r][0];
    }
  } else {
    add_columns(t, b, sum);
  }
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
    float* c = t.c + r * t.c_stride;
    const __m128 all = totals(sum[r][0], sum[r][Cols > 1 ? 1 : 0], sum[r][Cols / 4 * 2], sum[r][Cols - 1]);
    if constexpr (Cols == 4) {
      _mm_storeu_ps(c, all);
    } else {
      _mm_mask_storeu_ps(c, (1 << Cols) - 1, all);
    }
  }
}

}  // namespace

// Denormals become zeros here and in the products, as the instructions have it.
WEIR_AVX512 void prepare_bf16(const float* x, std::int64_t depth, std::byte* row) {
  constexpr std::int64_t lanes = 16;
  auto* to = reinterpret_cast<std::uint16_t*>(row);
  const std::int64_t end = (depth + k_step - 1) / k_step * k_step;
  for (std::int64_t k = 0; k < end; k += lanes) {
    const std::int64_t left = depth - k;
    const std::uint32_t there = left >= lanes ? 0xFFFFU : left > 0 ? (1U << left) - 1 : 0U;
    const auto mask = static_cast<__mmask16>(there);
    const __m256bh narrow = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, x + k));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + k), reinterpret_cast<__m256i>(narrow));
  }
}

void bf16_dot_columns(const product_range& p, std::int64_t begin, std::int64_t end) {
  static constexpr tile_function functions[] = {
      tile<1, 1>, tile<1, 2>, tile<1, 4>, tile<2, 1>, tile<2, 2>, tile<2, 4>,
      tile<3, 1>, tile<3, 2>, tile<3, 4>, tile<4, 1>, tile<4, 2>, tile<4, 4>,
      tile<5, 1>, tile<5, 2>, tile<5, 4>, tile<6, 1>, tile<6, 2>, tile<6, 4>,
  };
  static_assert(sizeof functions / sizeof functions[0] == 3 * k_tile_rows);
  const auto column_bytes = static_cast<std::int64_t>(p.b->cols * sizeof(std::uint16_t));
  walk_tiles(p, column_bytes, begin, end, {k_tile_rows, functions});
}

#else

void prepare_bf16(const float*, std::int64_t, std::byte*) {
  std::abort();
}

void bf16_dot_columns(const product_range&, std::int64_t, std::int64_t) {
  std::abort();
}

#endif

}  // namespace weir::kernels::cpu
