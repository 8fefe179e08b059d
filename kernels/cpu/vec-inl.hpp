// Vector helpers shared by the CPU operations, compiled once per instruction set; included after
// hwy/foreach_target.h. Every reduction keeps one accumulator order that depends on the length alone, so
// results do not depend on the batch.
#if defined(WEIR_KERNELS_CPU_VEC_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef WEIR_KERNELS_CPU_VEC_INL_HPP
#undef WEIR_KERNELS_CPU_VEC_INL_HPP
#else
#define WEIR_KERNELS_CPU_VEC_INL_HPP
#endif

#include <cstdint>
#include <cstring>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/dtype.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::kernels::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using floats = hn::ScalableTag<float>;
using vec = hn::Vec<floats>;

HWY_INLINE std::int64_t lane_count() {
  return static_cast<std::int64_t>(hn::Lanes(floats()));
}

// The stored element types as Highway names them.
HWY_INLINE vec load_wide(const float* p) {
  return hn::LoadU(floats(), p);
}
HWY_INLINE vec load_wide(const hwy::bfloat16_t* p) {
  return hn::PromoteTo(floats(), hn::LoadU(hn::Rebind<hwy::bfloat16_t, floats>(), p));
}
HWY_INLINE vec load_wide(const hwy::float16_t* p) {
  return hn::PromoteTo(floats(), hn::LoadU(hn::Rebind<hwy::float16_t, floats>(), p));
}
HWY_INLINE float load_one(const float* p) {
  return *p;
}
HWY_INLINE float load_one(const hwy::bfloat16_t* p) {
  return bf16_to_float(p->bits);
}
HWY_INLINE float load_one(const hwy::float16_t* p) {
  std::uint16_t bits;
  std::memcpy(&bits, p, sizeof bits);
  return f16_to_float(bits);
}

// The first `count` lanes (fewer than all) of memory that may end there; the others are zero.
HWY_INLINE vec load_some(const float* p, std::int64_t count) {
  HWY_ALIGN float lanes[hn::MaxLanes(floats())] = {};
  for (std::int64_t i = 0; i < count; ++i) lanes[i] = p[i];
  return hn::Load(floats(), lanes);
}
HWY_INLINE void store_some(vec v, float* p, std::int64_t count) {
  HWY_ALIGN float lanes[hn::MaxLanes(floats())];
  hn::Store(v, floats(), lanes);
  for (std::int64_t i = 0; i < count; ++i) p[i] = lanes[i];
}
HWY_INLINE vec load_up_to(const float* p, std::int64_t count) {
  return count >= lane_count() ? hn::LoadU(floats(), p) : load_some(p, count);
}
HWY_INLINE void store_up_to(vec v, float* p, std::int64_t count) {
  if (count >= lane_count()) {
    hn::StoreU(v, floats(), p);
  } else {
    store_some(v, p, count);
  }
}

HWY_INLINE float sum_lanes(vec v) {
  return hn::GetLane(hn::SumOfLanes(floats(), v));
}

template <class W>
HWY_INLINE float dot(const float* a, const W* b, std::int64_t count) {
  const std::int64_t lanes = lane_count();
  vec sum = hn::Zero(floats());
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) sum = hn::MulAdd(hn::LoadU(floats(), a + i), load_wide(b + i), sum);
  float total = sum_lanes(sum);
  for (; i < count; ++i) total += a[i] * load_one(b + i);
  return total;
}

// y += factor * x
template <class W>
HWY_INLINE void add_scaled(float factor, const W* x, float* y, std::int64_t count) {
  const std::int64_t lanes = lane_count();
  const vec wide = hn::Set(floats(), factor);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::MulAdd(wide, load_wide(x + i), hn::LoadU(floats(), y + i)), floats(), y + i);
  }
  for (; i < count; ++i) y[i] += factor * load_one(x + i);
}

HWY_INLINE void scale_by(float factor, float* x, std::int64_t count) {
  const std::int64_t lanes = lane_count();
  const vec wide = hn::Set(floats(), factor);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::Mul(wide, hn::LoadU(floats(), x + i)), floats(), x + i);
  for (; i < count; ++i) x[i] *= factor;
}

// Transcendental functions exist as vectors only: a tail in scalar code would round differently from the
// body.
HWY_INLINE vec sigmoid(vec x) {
  // Exp is undefined beyond 104; here the result is 0 to float's precision anyway. NaN stays NaN.
  const vec limited = hn::Max(hn::Set(floats(), -100.0F), x);
  const vec one = hn::Set(floats(), 1.0F);
  return hn::Div(one, hn::Add(one, hn::Exp(floats(), hn::Neg(limited))));
}

HWY_INLINE vec softplus(vec x) {
  const vec small = hn::Log1p(floats(), hn::Exp(floats(), hn::Neg(hn::Abs(x))));
  return hn::Add(hn::Max(x, hn::Zero(floats())), small);
}

}  // namespace weir::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // WEIR_KERNELS_CPU_VEC_INL_HPP
