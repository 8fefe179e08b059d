#include "kernels/cpu/features.hpp"

#include "hwy/highway.h"

namespace weir::kernels::cpu {

#if defined(__x86_64__)

namespace {

bool wide_vectors() noexcept {
  return (hwy::SupportedTargets() & (HWY_AVX3 | HWY_AVX3_DL)) != 0 &&
         __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
         __builtin_cpu_supports("avx512dq") != 0;
}

}  // namespace

bool has_bf16_dot() noexcept {
  return wide_vectors() && __builtin_cpu_supports("avx512bf16") != 0;
}

bool has_int8_dot() noexcept {
  return wide_vectors() && __builtin_cpu_supports("avx512vnni") != 0;
}

#else

bool has_bf16_dot() noexcept {
  return false;
}

bool has_int8_dot() noexcept {
  return false;
}

#endif

}  // namespace weir::kernels::cpu
