// Functions of one number, as the reference defines them and right to a few units in the last place at any
// argument: no fast approximations, since all who call them wait for memory.
#pragma once

#include "kernels/cuda/device.cuh"

namespace weir::kernels::cuda {

__device__ inline float sigmoid(float x) {
  return 1.0F / (1.0F + expf(-x));
}
__device__ inline float silu(float x) {
  return x * sigmoid(x);
}
__device__ inline float softplus(float x) {
  return fmaxf(x, 0.0F) + log1pf(expf(-fabsf(x)));
}

}  // namespace weir::kernels::cuda
