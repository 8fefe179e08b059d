#include <algorithm>

#include "kernels/cpu/ops.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise.cpp"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/vec-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::kernels::cpu::HWY_NAMESPACE {

template <class W>
HWY_INLINE void widen(const W* from, float* to, std::int64_t count) {
  const std::int64_t lanes = lane_count();
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(load_wide(from + i), floats(), to + i);
  for (; i < count; ++i) to[i] = load_one(from + i);
}

template <class W>
HWY_INLINE void gather(const embed_params<float>& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t cols = p.table.cols;
  const W* table = static_cast<const W*>(p.table.data);
  for (std::int64_t row = begin; row < end; ++row) widen(table + p.ids[row] * cols, p.y + row * cols, cols);
}

void embed_rows(const embed_params<float>& p, std::int64_t begin, std::int64_t end) {
  switch (p.table.type) {
    case dtype::f32:
      return gather<float>(p, begin, end);
    case dtype::bf16:
      return gather<hwy::bfloat16_t>(p, begin, end);
    case dtype::f16:
      return gather<hwy::float16_t>(p, begin, end);
    case dtype::mxfp4:
    case dtype::int8:
      return;  // never stored so
  }
}

void silu_mul_range(const silu_mul_params<float>& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t lanes = lane_count();
  for (std::int64_t i = begin; i < end; i += lanes) {
    const std::int64_t left = end - i;
    const vec gate = load_up_to(p.gate + i, left);
    const vec active = hn::Mul(gate, sigmoid(gate));
    store_up_to(hn::Mul(active, load_up_to(p.up + i, left)), p.gate + i, left);
  }
}

void situ_mul_range(const situ_mul_params<float>& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t lanes = lane_count();
  const vec beta = hn::Set(floats(), static_cast<float>(p.situ.beta));
  const vec linear = hn::Set(floats(), static_cast<float>(p.situ.linear_beta));
  for (std::int64_t i = begin; i < end; i += lanes) {
    const std::int64_t left = end - i;
    const vec gate = load_up_to(p.gate + i, left);
    const vec up = load_up_to(p.up + i, left);
    const vec active = hn::Mul(hn::Mul(beta, hn::Tanh(floats(), hn::Div(gate, beta))), sigmoid(gate));
    const vec value = hn::Mul(linear, hn::Tanh(floats(), hn::Div(up, linear)));
    store_up_to(hn::Mul(active, value), p.gate + i, left);
  }
}

void sigmoid_mul_range(const sigmoid_mul_params<float>& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t lanes = lane_count();
  for (std::int64_t i = begin; i < end; i += lanes) {
    const std::int64_t left = end - i;
    const vec open = sigmoid(load_up_to(p.gate + i, left));
    store_up_to(hn::Mul(load_up_to(p.x + i, left), open), p.x + i, left);
  }
}

void add_range(const add_params<float>& p, std::int64_t begin, std::int64_t end) {
  add_scaled(1.0F, p.y + begin, p.x + begin, end - begin);
}

}  // namespace weir::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::kernels::cpu {

HWY_EXPORT(embed_rows);
HWY_EXPORT(silu_mul_range);
HWY_EXPORT(situ_mul_range);
HWY_EXPORT(sigmoid_mul_range);
HWY_EXPORT(add_range);

namespace {

constexpr std::int64_t k_exp_work = 16;  // an exponential costs about as much as this many multiply-adds

}  // namespace

void embed(const embed_params<float>& p, const context& ctx) {
  split(ctx, p.rows, p.table.cols, [&p](std::int64_t begin, std::int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(embed_rows)(p, begin, end);
  });
}

void silu_mul(const silu_mul_params<float>& p, const context& ctx) {
  split(ctx, p.count, k_exp_work, [&p](std::int64_t begin, std::int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(silu_mul_range)(p, begin, end);
  });
}

void situ_mul(const situ_mul_params<float>& p, const context& ctx) {
  split(ctx, p.count, 3 * k_exp_work, [&p](std::int64_t begin, std::int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(situ_mul_range)(p, begin, end);
  });
}

void sigmoid_mul(const sigmoid_mul_params<float>& p, const context& ctx) {
  split(ctx, p.count, k_exp_work, [&p](std::int64_t begin, std::int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(sigmoid_mul_range)(p, begin, end);
  });
}

void gather(const gather_params<float>& p, const context& ctx) {
  split(ctx, p.rows, p.dim, [&p](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::copy_n(p.x + static_cast<std::int64_t>(p.ids[row]) * p.dim, p.dim, p.y + row * p.dim);
    }
  });
}

void add(const add_params<float>& p, const context& ctx) {
  split(ctx, p.count, 1, [&p](std::int64_t begin, std::int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(add_range)(p, begin, end);
  });
}

}  // namespace weir::kernels::cpu
#endif  // HWY_ONCE
