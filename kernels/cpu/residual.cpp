#include <algorithm>
#include <cmath>

#include "kernels/cpu/ops.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/residual.cpp"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/vec-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::kernels::cpu::HWY_NAMESPACE {

// sum(v * norm * proj) / rms(v)
HWY_INLINE double source_score(const residual_mix_params<float>& p, const float* v) {
  const std::int64_t lanes = lane_count();
  vec sum = hn::Zero(floats());
  std::int64_t i = 0;
  for (; i + lanes <= p.dim; i += lanes) {
    const vec weight = hn::Mul(hn::LoadU(floats(), p.norm + i), hn::LoadU(floats(), p.proj + i));
    sum = hn::MulAdd(hn::LoadU(floats(), v + i), weight, sum);
  }
  float total = sum_lanes(sum);
  for (; i < p.dim; ++i) total += v[i] * (p.norm[i] * p.proj[i]);
  const double mean = static_cast<double>(dot(v, v, p.dim)) / static_cast<double>(p.dim);
  return static_cast<double>(total) / std::sqrt(mean + p.eps);
}

void residual_mix_rows(const residual_mix_params<float>& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t dim = p.dim;
  const auto source = [&p, dim](std::int64_t index, std::int64_t row) {
    return index < p.block_count ? p.blocks + (index * p.rows + row) * dim : p.current + row * dim;
  };
  double score[k_residual_sources_max];
  for (std::int64_t row = begin; row < end; ++row) {
    for (std::int32_t s = 0; s <= p.block_count; ++s) score[s] = source_score(p, source(s, row));
    const double largest = *std::max_element(score, score + p.block_count + 1);
    double total = 0.0;
    for (std::int32_t s = 0; s <= p.block_count; ++s) total += score[s] = std::exp(score[s] - largest);
    float* y = p.y + row * dim;
    std::fill_n(y, dim, 0.0F);
    for (std::int32_t s = 0; s <= p.block_count; ++s) {
      add_scaled(static_cast<float>(score[s] / total), source(s, row), y, dim);
    }
  }
}

}  // namespace weir::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::kernels::cpu {

HWY_EXPORT(residual_mix_rows);

void residual_mix(const residual_mix_params<float>& p, const context& ctx) {
  const std::int64_t work = static_cast<std::int64_t>(p.block_count + 1) * p.dim * 3;
  split(ctx, p.rows, work, [&p](std::int64_t begin, std::int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(residual_mix_rows)(p, begin, end);
  });
}

}  // namespace weir::kernels::cpu
#endif  // HWY_ONCE
