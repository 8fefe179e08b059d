#include <cmath>

#include "kernels/cpu/ops.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/norm.cpp"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/vec-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::kernels::cpu::HWY_NAMESPACE {

HWY_INLINE void scaled_product(const float* x, float factor, const float* weight, float* y,
                               std::int64_t count) {
  const std::int64_t lanes = lane_count();
  const vec wide = hn::Set(floats(), factor);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const vec scaled = hn::Mul(hn::LoadU(floats(), x + i), wide);
    hn::StoreU(hn::Mul(scaled, hn::LoadU(floats(), weight + i)), floats(), y + i);
  }
  for (; i < count; ++i) y[i] = x[i] * factor * weight[i];
}

HWY_INLINE float inverse_rms(const float* x, std::int64_t count, double eps) {
  const double mean = static_cast<double>(dot(x, x, count)) / static_cast<double>(count);
  return static_cast<float>(1.0 / std::sqrt(mean + eps));
}

void rmsnorm_rows(const rmsnorm_params<float>& p, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    const float* x = p.x + row * p.stride;
    scaled_product(x, inverse_rms(x, p.dim, p.eps), p.weight, p.y + row * p.stride, p.dim);
  }
}

void l2norm_rows(const l2norm_params<float>& p, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    float* x = p.x + row * p.dim;
    const double squares = static_cast<double>(dot(x, x, p.dim));
    scale_by(static_cast<float>(p.scale / std::sqrt(squares + p.eps)), x, p.dim);
  }
}

void gated_norm_rows(const gated_norm_params<float>& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t lanes = lane_count();
  for (std::int64_t row = begin; row < end; ++row) {
    float* o = p.o + row * p.dim;
    const float* gate = p.gate + row * p.dim;
    scaled_product(o, inverse_rms(o, p.dim, p.eps), p.weight, o, p.dim);
    for (std::int64_t i = 0; i < p.dim; i += lanes) {
      const std::int64_t left = p.dim - i;
      store_up_to(hn::Mul(load_up_to(o + i, left), sigmoid(load_up_to(gate + i, left))), o + i, left);
    }
  }
}

}  // namespace weir::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::kernels::cpu {

HWY_EXPORT(rmsnorm_rows);
HWY_EXPORT(l2norm_rows);
HWY_EXPORT(gated_norm_rows);

void rmsnorm(const rmsnorm_params<float>& p, const context& ctx) {
  split(ctx, p.rows, p.dim, [&p](std::int64_t begin, std::int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(rmsnorm_rows)(p, begin, end);
  });
}

void l2norm(const l2norm_params<float>& p, const context& ctx) {
  split(ctx, p.rows, p.dim, [&p](std::int64_t begin, std::int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(l2norm_rows)(p, begin, end);
  });
}

void gated_norm(const gated_norm_params<float>& p, const context& ctx) {
  constexpr std::int64_t k_exp_work = 16;  // an exponential costs about as much as this many multiply-adds
  split(ctx, p.rows, p.dim * k_exp_work, [&p](std::int64_t begin, std::int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(gated_norm_rows)(p, begin, end);
  });
}

}  // namespace weir::kernels::cpu
#endif  // HWY_ONCE
