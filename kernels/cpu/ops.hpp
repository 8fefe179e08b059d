// The vectorised float32 operations, to be put into a table. Work is split over context::pool; each index
// range is one call of a body compiled for several instruction sets, chosen once per process by Highway.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/parallel.hpp"
#include "kernels/params.hpp"
#include "kernels/table.hpp"

namespace weir::kernels::cpu {

// Multiply-adds worth a hand-over to another thread, which is awake between the operations of a layer.
inline constexpr std::int64_t k_grain_work = 1 << 16;

constexpr std::int64_t grain_of(std::int64_t work_per_index) {
  return work_per_index >= k_grain_work ? 1 : k_grain_work / (work_per_index > 0 ? work_per_index : 1);
}

template <class Body>
void split(const context& ctx, std::int64_t count, std::int64_t work_per_index, Body&& body) {
  if (ctx.pool != nullptr) {
    ctx.pool->run(count, grain_of(work_per_index), body);
  } else if (count > 0) {
    body(std::int64_t{0}, count, 0);
  }
}

template <activation_format Format>
void gemm(const gemm_params<float>& p, const context& ctx);
void rmsnorm(const rmsnorm_params<float>& p, const context& ctx);
void l2norm(const l2norm_params<float>& p, const context& ctx);
void embed(const embed_params<float>& p, const context& ctx);
void short_conv(const short_conv_params<float>& p, const context& ctx);
void kda_gate(const kda_gate_params<float>& p, const context& ctx);
void kda(const kda_params<float>& p, const context& ctx);
void gated_norm(const gated_norm_params<float>& p, const context& ctx);
void mla_store(const mla_store_params<float>& p, const context& ctx);
void mla(const mla_params<float>& p, const context& ctx);
void router(const router_params<float>& p, const context& ctx);
template <activation_format Format>
void experts(const experts_params<float>& p, const context& ctx);
void silu_mul(const silu_mul_params<float>& p, const context& ctx);
void situ_mul(const situ_mul_params<float>& p, const context& ctx);
void sigmoid_mul(const sigmoid_mul_params<float>& p, const context& ctx);
void residual_mix(const residual_mix_params<float>& p, const context& ctx);
void gather(const gather_params<float>& p, const context& ctx);
void add(const add_params<float>& p, const context& ctx);

std::size_t mla_workspace_bytes(const mla_params<float>& p, int thread_count);
template <activation_format Format>
std::size_t gemm_workspace_bytes(const gemm_params<float>& p, int thread_count);
template <activation_format Format>
std::size_t experts_workspace_bytes(const experts_params<float>& p, int thread_count);

}  // namespace weir::kernels::cpu
