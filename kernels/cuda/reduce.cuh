// Sums over a block, the same in every thread and in a fixed order, so that results do not change from run to
// run.
#pragma once

#include "kernels/cuda/device.cuh"

namespace weir::kernels::cuda {

// Sum of all threads' values in every thread. REQUIRES: Warps warps, all of which call it; two barriers, so
// that it may be called again at once.
template <int Warps>
__device__ inline float block_sum(float value) {
  __shared__ float parts[Warps];
  value = warp_sum(value);
  if (lane_index() == 0) parts[warp_index()] = value;
  __syncthreads();
  float out = 0.0F;
  for (int i = 0; i < Warps; ++i) out += parts[i];
  __syncthreads();
  return out;
}

}  // namespace weir::kernels::cuda
