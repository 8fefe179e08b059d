// Products of small blocks of rows, the accumulators all in registers. Sums run in the same order whatever
// the block's size, so a row's result does not depend on its neighbours.
#if defined(WEIR_KERNELS_CPU_TILES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef WEIR_KERNELS_CPU_TILES_INL_HPP
#undef WEIR_KERNELS_CPU_TILES_INL_HPP
#else
#define WEIR_KERNELS_CPU_TILES_INL_HPP
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/vec-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::kernels::cpu::HWY_NAMESPACE {

constexpr int k_block = 4;  // rows and columns of a tile: 16 sums, to hide the multiply-add latency

// Rows of floats or of a stored element type, `stride` elements apart.
template <class T>
struct rows_of {
  T* at;
  std::int64_t stride;

  HWY_INLINE T* operator[](std::int64_t row) const { return at + row * stride; }
  HWY_INLINE rows_of from(std::int64_t row) const { return {at + row * stride, stride}; }
};

// c[r][n] = a[r] · b[n]
template <int Rows, int Cols, class W>
HWY_INLINE void dot_tile(rows_of<const float> a, rows_of<const W> b, std::int64_t depth, rows_of<float> c) {
  const std::int64_t lanes = lane_count();
  vec sum[Rows][Cols];
  for (auto& row : sum) {
    for (auto& one : row) one = hn::Zero(floats());
  }
  std::int64_t k = 0;
  for (; k + lanes <= depth; k += lanes) {
    vec right[Cols];
    for (int n = 0; n < Cols; ++n) right[n] = load_wide(b[n] + k);
    for (int r = 0; r < Rows; ++r) {
      const vec left = hn::LoadU(floats(), a[r] + k);
      for (int n = 0; n < Cols; ++n) sum[r][n] = hn::MulAdd(left, right[n], sum[r][n]);
    }
  }
  for (int r = 0; r < Rows; ++r) {
    for (int n = 0; n < Cols; ++n) {
      float total = sum_lanes(sum[r][n]);
      for (std::int64_t i = k; i < depth; ++i) total += a[r][i] * load_one(b[n] + i);
      c[r][n] = total;
    }
  }
}

template <int Rows, class W>
HWY_INLINE void dot_columns(rows_of<const float> a, rows_of<const W> b, std::int64_t cols, std::int64_t depth,
                            rows_of<float> c) {
  std::int64_t n = 0;
  for (; n + k_block <= cols; n += k_block)
    dot_tile<Rows, k_block>(a, b.from(n), depth, rows_of<float>{c.at + n, c.stride});
  for (; n < cols; ++n) dot_tile<Rows, 1>(a, b.from(n), depth, rows_of<float>{c.at + n, c.stride});
}

template <class W>
HWY_INLINE void dot_rows(rows_of<const float> a, std::int64_t rows, rows_of<const W> b, std::int64_t cols,
                         std::int64_t depth, rows_of<float> c) {
  std::int64_t r = 0;
  for (; r + k_block <= rows; r += k_block) dot_columns<k_block>(a.from(r), b, cols, depth, c.from(r));
  for (; r < rows; ++r) dot_columns<1>(a.from(r), b, cols, depth, c.from(r));
}

// c[r] += sum over i of a[r][i] * b[i], columns [j, j + Vectors * lanes).
template <int Rows, int Vectors, class W>
HWY_INLINE void mix_tile(rows_of<const float> a, rows_of<const W> b, std::int64_t depth, rows_of<float> c,
                         std::int64_t j) {
  const std::int64_t lanes = lane_count();
  vec sum[Rows][Vectors];
  for (int r = 0; r < Rows; ++r) {
    for (int n = 0; n < Vectors; ++n) sum[r][n] = hn::LoadU(floats(), c[r] + j + n * lanes);
  }
  for (std::int64_t i = 0; i < depth; ++i) {
    vec right[Vectors];
    for (int n = 0; n < Vectors; ++n) right[n] = load_wide(b[i] + j + n * lanes);
    for (int r = 0; r < Rows; ++r) {
      const vec by = hn::Set(floats(), a[r][i]);
      for (int n = 0; n < Vectors; ++n) sum[r][n] = hn::MulAdd(by, right[n], sum[r][n]);
    }
  }
  for (int r = 0; r < Rows; ++r) {
    for (int n = 0; n < Vectors; ++n) hn::StoreU(sum[r][n], floats(), c[r] + j + n * lanes);
  }
}

template <int Rows, class W>
HWY_INLINE void mix_columns(rows_of<const float> a, rows_of<const W> b, std::int64_t cols, std::int64_t depth,
                            rows_of<float> c) {
  const std::int64_t lanes = lane_count();
  std::int64_t j = 0;
  for (; j + k_block * lanes <= cols; j += k_block * lanes) mix_tile<Rows, k_block>(a, b, depth, c, j);
  for (; j + lanes <= cols; j += lanes) mix_tile<Rows, 1>(a, b, depth, c, j);
  for (; j < cols; ++j) {
    for (int r = 0; r < Rows; ++r) {
      for (std::int64_t i = 0; i < depth; ++i) c[r][j] += a[r][i] * load_one(b[i] + j);
    }
  }
}

template <class W>
HWY_INLINE void mix_rows(rows_of<const float> a, std::int64_t rows, rows_of<const W> b, std::int64_t cols,
                         std::int64_t depth, rows_of<float> c) {
  std::int64_t r = 0;
  for (; r + k_block <= rows; r += k_block) mix_columns<k_block>(a.from(r), b, cols, depth, c.from(r));
  for (; r < rows; ++r) mix_columns<1>(a.from(r), b, cols, depth, c.from(r));
}

}  // namespace weir::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // WEIR_KERNELS_CPU_TILES_INL_HPP
