#include "kernels/cpu/avx512_int8.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>

#include "kernels/cpu/products.hpp"

#if !defined(__x86_64__)
#include <cstdlib>
#endif

namespace weir::kernels::cpu {

#if defined(__x86_64__)

namespace {

// All rows, which are few, against one column, without a panel.
using column_function = void (*)(const product_range&, std::int64_t column);

// Codes of 16 values; adds their sum to `sum`.
WEIR_AVX512_INLINE __m128i quantise(__m512 values, __m512 inverse, __m512i& sum) {
  const __m512i codes = _mm512_cvtps_epi32(_mm512_mul_ps(values, inverse));
  sum = _mm512_add_epi32(sum, codes);
  return _mm512_cvtepi32_epi8(codes);
}

WEIR_AVX512_INLINE std::uint32_t largest_lane(__m512i v) {
  __m256i half = _mm256_max_epu32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
  __m128i most = _mm_max_epu32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  most = _mm_max_epu32(most, _mm_shuffle_epi32(most, 0x4E));
  most = _mm_max_epu32(most, _mm_shuffle_epi32(most, 0xB1));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(most));
}

WEIR_AVX512_INLINE std::int32_t sum_of_lanes(__m512i v) {
  const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
  __m128i all = _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  all = _mm_add_epi32(all, _mm_shuffle_epi32(all, 0x4E));
  all = _mm_add_epi32(all, _mm_shuffle_epi32(all, 0xB1));
  return _mm_cvtsi128_si32(all);
}

// The group's codes in order, at most 64 of them; returns their sum, and the largest magnitude in `peak`.
template <class Format>
WEIR_AVX512_INLINE std::int32_t quantise_group(const float* x, std::int8_t* codes, float& peak) {
  constexpr int vectors = Format::group / 16;
  const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
  __m512 values[vectors];
  __m512i most = _mm512_setzero_si512();
  for (int i = 0; i < vectors; ++i) {
    values[i] = _mm512_loadu_ps(x + 16 * i);
    most = _mm512_max_epu32(most, _mm512_and_si512(_mm512_castps_si512(values[i]), magnitude));
  }
  peak = std::bit_cast<float>(largest_lane(most));
  const bool usable = std::isfinite(peak) && peak >= k_smallest_peak;
  const __m512 inverse = _mm512_set1_ps(usable ? 127.0F / peak : 0.0F);
  __m512i sum = _mm512_setzero_si512();
  for (int i = 0; i < vectors; ++i) {
    // Where the peak is not finite the values are left out altogether: what they are times 0 may be no
    // number.
    const __m512 kept = usable ? values[i] : _mm512_setzero_ps();
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + 16 * i), quantise(kept, inverse, sum));
  }
  return sum_of_lanes(sum);
}

// Even codes to the one place, odd ones to the other.
WEIR_AVX512_INLINE void part_codes(const std::int8_t* codes, std::int8_t* even, std::int8_t* odd) {
  const __m256i order =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
  const __m256i all = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
  const __m256i parted = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(all, order), 0xD8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(even), _mm256_castsi256_si128(parted));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(odd), _mm256_extracti128_si256(parted, 1));
}

template <class Format>
WEIR_AVX512 void prepare(const float* x, std::int64_t depth, std::byte* row) {
  const quantised_layout<Format> at(depth);
  const std::int64_t groups = depth / Format::group;
  auto* codes = reinterpret_cast<std::int8_t*>(row);
  auto* scales = reinterpret_cast<float*>(row + at.scales);
  auto* corrections = reinterpret_cast<std::int32_t*>(row + at.corrections);
  std::memset(row + groups * Format::group, 0, at.scales - static_cast<std::size_t>(groups * Format::group));
  std::memset(scales, 0, at.end - at.scales);
  for (std::int64_t g = 0; g < groups; ++g) {
    float peak = 0;
    std::int32_t sum = 0;
    if constexpr (Format::group == k_int8_group) {
      sum = quantise_group<Format>(x + g * Format::group, codes + g * Format::group, peak);
    } else {
      std::int8_t ordered[Format::group];
      sum = quantise_group<Format>(x + g * Format::group, ordered, peak);
      std::int8_t* even = codes + g / 4 * Format::line_values + g % 4 * 16;
      if (g % 4 == 0) std::memset(even, 0, Format::line_values);
      part_codes(ordered, even, even + k_vector_bytes);
    }
    const std::int64_t place = Format::scale_place(g);
    scales[place] = peak * Format::scale_factor;
    corrections[place] = -Format::offset * sum;
  }
}

// Column by column: the weights of a row of groups against a few rows.
template <int Count, int Rows>
WEIR_AVX512_INLINE void int8_quad(const product_range& p, const quantised_layout<int8_format>& at,
                                  const std::byte* weights, const float* factors, std::int64_t g,
                                  __m128 (&total)[Rows]) {
  unpacked<int8_format> w[4];
#pragma GCC unroll 4
  for (int i = 0; i < Count; ++i) {
    w[i].load(weights + (g + i) * k_int8_group, k_int8_group);
  }
  const __m128 scale = _mm_maskz_loadu_ps(static_cast<__mmask8>((1 << Count) - 1), factors + g);
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) {
    const std::byte* row = p.rows + static_cast<std::size_t>(r) * p.row_bytes;
    __m512i sum[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const __m512i zero = _mm512_setzero_si512();
      sum[i] = i < Count ? _mm512_dpbusd_epi32(zero, w[i].vectors[0],
                                               _mm512_loadu_si512(row + (g + i) * k_int8_group))
                         : zero;
    }
    const __m512i quarters = quarter_sums(sum[0], sum[1], sum[2], sum[3]);
    const __m256i half =
        _mm256_add_epi32(_mm512_castsi512_si256(quarters), _mm512_extracti64x4_epi64(quarters, 1));
    const __m128i all = _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    const auto* correction = reinterpret_cast<const std::int32_t*>(row + at.corrections) + g;
    const auto* scales = reinterpret_cast<const float*>(row + at.scales) + g;
    const __m128i exact = _mm_add_epi32(all, _mm_loadu_si128(reinterpret_cast<const __m128i*>(correction)));
    total[r] = _mm_fmadd_ps(_mm_cvtepi32_ps(exact), _mm_mul_ps(_mm_loadu_ps(scales), scale), total[r]);
  }
}

template <int Rows>
WEIR_AVX512 void int8_column(const product_range& p, std::int64_t column) {
  const std::int64_t depth = p.b->cols;
  const std::int64_t groups = depth / k_int8_group;
  const quantised_layout<int8_format> at(depth);
  const std::byte* weights = static_cast<const std::byte*>(p.b->data) + column * depth;
  const float* factors = p.b->factors() + column * groups;
  __m128 total[Rows];
  for (auto& t : total) t = _mm_setzero_ps();
  std::int64_t g = 0;
  for (; g + 4 <= groups; g += 4) int8_quad<4>(p, at, weights, factors, g, total);
  if (groups - g == 3) int8_quad<3>(p, at, weights, factors, g, total);
  if (groups - g == 2) int8_quad<2>(p, at, weights, factors, g, total);
  if (groups - g == 1) int8_quad<1>(p, at, weights, factors, g, total);
  for (int r = 0; r < Rows; ++r) {
    const __m128 pairs = _mm_add_ps(total[r], _mm_shuffle_ps(total[r], total[r], 0xB1));
    p.c[r * p.c_stride + column] = _mm_cvtss_f32(_mm_add_ps(pairs, _mm_movehl_ps(pairs, pairs)));
  }
}

// Scales of sixteen groups, fewer at a row's end, in the order of a prepared row.
WEIR_AVX512_INLINE __m512 scales_of(const std::uint8_t* exponents, std::int64_t count) {
  const __m128i order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return e8m0_scales(_mm_shuffle_epi8(_mm_maskz_loadu_epi8(first_lanes(count), exponents), order));
}

template <int Rows>
WEIR_AVX512 void mxfp4_column(const product_range& p, std::int64_t column) {
  using format = mxfp4_format;
  constexpr std::int64_t block_lines = 4;
  const std::int64_t depth = p.b->cols;
  const std::int64_t groups = depth / format::group;
  const std::int64_t bytes = depth / 2;
  const quantised_layout<format> at(depth);
  const std::byte* weights = static_cast<const std::byte*>(p.b->data) + column * bytes;
  const std::uint8_t* exponents = p.b->exponents() + column * groups;
  __m512 total[Rows];
  for (auto& t : total) t = _mm512_setzero_ps();
  for (std::int64_t g = 0; g < groups; g += k_scale_block) {
    const std::int64_t line = g / 4;
    __m512i sum[Rows][block_lines];
#pragma GCC unroll 4
    for (int q = 0; q < block_lines; ++q) {
      const std::int64_t left = bytes - (line + q) * k_vector_bytes;
      unpacked<format> w;
      if (left > 0) w.load(weights + (line + q) * k_vector_bytes, left);
#pragma GCC unroll 4
      for (int r = 0; r < Rows; ++r) {
        const std::byte* codes =
            p.rows + static_cast<std::size_t>(r) * p.row_bytes + (line + q) * format::line_values;
        sum[r][q] = _mm512_setzero_si512();
        if (left <= 0) continue;
        sum[r][q] = _mm512_dpbusd_epi32(sum[r][q], w.vectors[0], _mm512_loadu_si512(codes));
        sum[r][q] = _mm512_dpbusd_epi32(sum[r][q], w.vectors[1], _mm512_loadu_si512(codes + k_vector_bytes));
      }
    }
    const __m512 scale = scales_of(exponents + g, groups - g);
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) {
      const std::byte* row = p.rows + static_cast<std::size_t>(r) * p.row_bytes;
      const __m512i exact = _mm512_add_epi32(
          quarter_sums(sum[r][0], sum[r][1], sum[r][2], sum[r][3]),
          _mm512_loadu_si512(reinterpret_cast<const std::int32_t*>(row + at.corrections) + g));
      const __m512 scales = _mm512_loadu_ps(reinterpret_cast<const float*>(row + at.scales) + g);
      total[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(exact), _mm512_mul_ps(scales, scale), total[r]);
    }
  }
  for (int r = 0; r < Rows; ++r) {
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(total[r]), _mm512_extractf32x8_ps(total[r], 1));
    const __m128 all = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    const __m128 pairs = _mm_add_ps(all, _mm_movehl_ps(all, all));
    p.c[r * p.c_stride + column] = _mm_cvtss_f32(_mm_add_ss(pairs, _mm_movehdup_ps(pairs)));
  }
}

}  // namespace

void prepare_int8_dot(const float* x, std::int64_t depth, std::byte* row) {
  prepare<int8_format>(x, depth, row);
}
void prepare_mxfp4_dot(const float* x, std::int64_t depth, std::byte* row) {
  prepare<mxfp4_format>(x, depth, row);
}

void int8_dot_columns(const product_range& p, std::int64_t begin, std::int64_t end) {
  static constexpr column_function functions[] = {int8_column<1>, int8_column<2>, int8_column<3>};
  if (p.row_count > static_cast<std::int64_t>(std::size(functions))) {
    for (std::int64_t column = begin; column < end; column += k_panel_cols) int8_panel(p, column, end);
    return;
  }
  const column_function one = functions[p.row_count - 1];
  for (std::int64_t column = begin; column < end; ++column) one(p, column);
}

void mxfp4_dot_columns(const product_range& p, std::int64_t begin, std::int64_t end) {
  static constexpr column_function functions[] = {mxfp4_column<1>, mxfp4_column<2>, mxfp4_column<3>,
                                                  mxfp4_column<4>};
  if (p.row_count > static_cast<std::int64_t>(std::size(functions))) {
    for (std::int64_t column = begin; column < end; column += k_panel_cols) mxfp4_panel(p, column, end);
    return;
  }
  const column_function one = functions[p.row_count - 1];
  for (std::int64_t column = begin; column < end; ++column) one(p, column);
}

#else

std::size_t panel_bytes(std::int64_t) {
  return 0;
}
void prepare_int8_dot(const float*, std::int64_t, std::byte*) {
  std::abort();
}
void prepare_mxfp4_dot(const float*, std::int64_t, std::byte*) {
  std::abort();
}
void int8_dot_columns(const product_range&, std::int64_t, std::int64_t) {
  std::abort();
}
void mxfp4_dot_columns(const product_range&, std::int64_t, std::int64_t) {
  std::abort();
}

#endif

}  // namespace weir::kernels::cpu
