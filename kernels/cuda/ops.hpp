// The CUDA operations, to be put into a table. All pointers in the parameters are the device's, ctx.stream is
// the stream, ctx.workspace device memory. A call puts kernels behind what is on the stream and returns: it
// reads no device memory, allocates nothing, waits for nothing, so that it can be captured in a graph. Any
// thread; the current device is the stream's.
#pragma once

#include <cstddef>

#include "kernels/params.hpp"

namespace weir::kernels::cuda {

void rmsnorm(const rmsnorm_params<float>& p, const context& ctx);
void l2norm(const l2norm_params<float>& p, const context& ctx);
void embed(const embed_params<float>& p, const context& ctx);
void short_conv(const short_conv_params<float>& p, const context& ctx);
void kda_gate(const kda_gate_params<float>& p, const context& ctx);
void kda(const kda_params<float>& p, const context& ctx);
void gated_norm(const gated_norm_params<float>& p, const context& ctx);
void mla_store(const mla_store_params<float>& p, const context& ctx);
void router(const router_params<float>& p, const context& ctx);
void silu_mul(const silu_mul_params<float>& p, const context& ctx);
void situ_mul(const situ_mul_params<float>& p, const context& ctx);
void sigmoid_mul(const sigmoid_mul_params<float>& p, const context& ctx);
void residual_mix(const residual_mix_params<float>& p, const context& ctx);
void gather(const gather_params<float>& p, const context& ctx);
void add(const add_params<float>& p, const context& ctx);

}  // namespace weir::kernels::cuda
