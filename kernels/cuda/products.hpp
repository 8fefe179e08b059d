// The CUDA operations that have matrix products in them, by what becomes of activations beside bf16 and MXFP4
// weights: `float32` multiplies them as three bf16 parts, `narrow` as one. Beside f32, f16 and int8 weights
// they stay as they are in both. As in ops.hpp otherwise.
#pragma once

#include <cstddef>

#include "kernels/table.hpp"

namespace weir::kernels::cuda {

template <activation_format Format>
void gemm(const gemm_params<float>& p, const context& ctx);
template <activation_format Format>
std::size_t gemm_workspace_bytes(const gemm_params<float>& p, int thread_count);

// REQUIRES: matrices and scales of experts lie at multiples of 16 bytes: the host does not see where.
template <activation_format Format>
void experts(const experts_params<float>& p, const context& ctx);
template <activation_format Format>
std::size_t experts_workspace_bytes(const experts_params<float>& p, int thread_count);

template <activation_format Format>
void mla(const mla_params<float>& p, const context& ctx);
template <activation_format Format>
std::size_t mla_workspace_bytes(const mla_params<float>& p, int thread_count);

}  // namespace weir::kernels::cuda
