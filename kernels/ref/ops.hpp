// The scalar reference operations, to be put into a table. Any thread; no workspace, no pool.
#pragma once

#include <cmath>

#include "kernels/params.hpp"

namespace weir::kernels::ref {

inline double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}
inline double silu(double x) {
  return x * sigmoid(x);
}
inline double softplus(double x) {
  return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
}

inline double at(const matrix& m, std::int64_t row, std::int64_t col) {
  return static_cast<double>(load_weight(m.data, m.type, static_cast<std::size_t>(row * m.cols + col)));
}

void gemm(const gemm_params<double>& p, const context& ctx);
void rmsnorm(const rmsnorm_params<double>& p, const context& ctx);
void l2norm(const l2norm_params<double>& p, const context& ctx);
void embed(const embed_params<double>& p, const context& ctx);
void short_conv(const short_conv_params<double>& p, const context& ctx);
void kda_gate(const kda_gate_params<double>& p, const context& ctx);
void kda(const kda_params<double>& p, const context& ctx);
void gated_norm(const gated_norm_params<double>& p, const context& ctx);
void mla_store(const mla_store_params<double>& p, const context& ctx);
void mla(const mla_params<double>& p, const context& ctx);
void router(const router_params<double>& p, const context& ctx);
void experts(const experts_params<double>& p, const context& ctx);
void silu_mul(const silu_mul_params<double>& p, const context& ctx);
void situ_mul(const situ_mul_params<double>& p, const context& ctx);
void sigmoid_mul(const sigmoid_mul_params<double>& p, const context& ctx);
void residual_mix(const residual_mix_params<double>& p, const context& ctx);
void gather(const gather_params<double>& p, const context& ctx);
void add(const add_params<double>& p, const context& ctx);

}  // namespace weir::kernels::ref
