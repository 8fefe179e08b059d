// Launch shape of the mix over residual blocks: a block for a row.
#pragma once

#include "kernels/cuda/launch.hpp"

namespace weir::kernels::cuda {

// A source of 7,168 is fourteen floats a thread: it, the next one, the weights and the sum stay in registers,
// 128 of which a thread of 512 has.
inline constexpr std::int32_t k_mix_threads = 512;
inline constexpr std::int32_t k_mix_quads_max = 4;  // float4 of a source that a thread keeps
// Wider rows are read a second time.
inline constexpr std::int32_t k_mix_kept_dim_max = 4 * k_mix_quads_max * k_mix_threads;

static_assert(k_mix_threads * 128 <= 65536, "registers of a multiprocessor");

constexpr launch_shape mix_shape(std::int32_t rows) {
  return {.grid_x = rows, .threads = k_mix_threads};
}

}  // namespace weir::kernels::cuda
