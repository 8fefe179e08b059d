// Activations as wide products read them.
#pragma once

#include "kernels/cuda/product.cuh"

namespace weir::kernels::cuda {

// x [rows, cols] to bf16 parts [Parts][rows][packed_depth(cols)]. A thread writes the eight values of a lane.
template <dtype Type, int Parts>
__global__ void __launch_bounds__(k_pack_threads)
    pack_rows(const float* x, std::uint16_t* out, std::int64_t rows, int cols) {
  const std::int64_t chunks = packed_depth(cols) / 8;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * k_pack_threads + threadIdx.x;
  if (i >= rows * chunks) return;
  const int chunk = static_cast<int>(i % chunks);
  constexpr int k_steps = weight_unit<Type>::k_steps;
  uint4 parts[Parts];
  load_activations<Type, Parts>(parts, x + i / chunks * cols, chunk / 4 / k_steps, chunk / 4 % k_steps,
                                chunk % 4, cols);
  for (int part = 0; part < Parts; ++part)
    reinterpret_cast<uint4*>(out)[part * rows * chunks + i] = parts[part];
}

template <dtype Type, int Parts>
packed_rows pack(const float* x, std::byte* workspace, std::int64_t rows, int cols, void* stream) {
  auto* out = reinterpret_cast<std::uint16_t*>(workspace);
  launch(pack_rows<Type, Parts>, pack_shape(rows, cols), stream, x, out, rows, cols);
  return {out, rows * packed_depth(cols), packed_depth(cols)};
}

}  // namespace weir::kernels::cuda
