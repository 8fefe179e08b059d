#include "kernels/cpu/ops.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm.cpp"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/vec-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::kernels::cpu::HWY_NAMESPACE {

// Rows x columns outputs at once: enough independent sums to hide the multiply-add latency, few enough for 32
// registers.
constexpr int k_tile_rows = 4;
constexpr int k_tile_cols = 4;

template <int Rows, int Cols, class W>
HWY_INLINE void tile(const float* a, std::int64_t depth, const W* b, float* c, std::int64_t c_stride) {
  const std::int64_t lanes = lane_count();
  vec sum[Rows][Cols];
  for (int r = 0; r < Rows; ++r) {
    for (int n = 0; n < Cols; ++n) sum[r][n] = hn::Zero(floats());
  }
  std::int64_t k = 0;
  for (; k + lanes <= depth; k += lanes) {
    vec right[Cols];
    for (int n = 0; n < Cols; ++n) right[n] = load_wide(b + n * depth + k);
    for (int r = 0; r < Rows; ++r) {
      const vec left = hn::LoadU(floats(), a + r * depth + k);
      for (int n = 0; n < Cols; ++n) sum[r][n] = hn::MulAdd(left, right[n], sum[r][n]);
    }
  }
  for (int r = 0; r < Rows; ++r) {
    for (int n = 0; n < Cols; ++n) {
      float total = sum_lanes(sum[r][n]);
      for (std::int64_t i = k; i < depth; ++i) total += a[r * depth + i] * load_one(b + n * depth + i);
      c[r * c_stride + n] = total;
    }
  }
}

template <int Cols, class W>
HWY_INLINE void column_block(const gemm_params<float>& p, const W* b, std::int64_t n) {
  const std::int64_t depth = p.b.cols;
  const std::int64_t stride = p.b.rows;
  std::int64_t row = 0;
  for (; row + k_tile_rows <= p.rows; row += k_tile_rows) {
    tile<k_tile_rows, Cols>(p.a + row * depth, depth, b + n * depth, p.c + row * stride + n, stride);
  }
  for (; row < p.rows; ++row) {
    tile<1, Cols>(p.a + row * depth, depth, b + n * depth, p.c + row * stride + n, stride);
  }
}

template <class W>
HWY_NOINLINE void columns(const gemm_params<float>& p, std::int64_t begin, std::int64_t end) {
  const W* b = static_cast<const W*>(p.b.data);
  std::int64_t n = begin;
  for (; n + k_tile_cols <= end; n += k_tile_cols) column_block<k_tile_cols>(p, b, n);
  for (; n < end; ++n) column_block<1>(p, b, n);
}

void gemm_columns(const gemm_params<float>& p, std::int64_t begin, std::int64_t end) {
  switch (p.b.type) {
    case dtype::f32:
      return columns<float>(p, begin, end);
    case dtype::bf16:
      return columns<hwy::bfloat16_t>(p, begin, end);
    case dtype::f16:
      return columns<hwy::float16_t>(p, begin, end);
    case dtype::mxfp4:
    case dtype::int8:
      return;  // gemm_mxfp4's
  }
}

}  // namespace weir::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::kernels::cpu {

HWY_EXPORT(gemm_columns);

void gemm(const gemm_params<float>& p, const context& ctx) {
  if (p.b.type == dtype::mxfp4) return gemm_mxfp4(p, ctx);
  const std::int64_t work = static_cast<std::int64_t>(p.rows) * p.b.cols;
  split(ctx, p.b.rows, work, [&p](std::int64_t begin, std::int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(gemm_columns)(p, begin, end);
  });
}

}  // namespace weir::kernels::cpu
#endif  // HWY_ONCE
