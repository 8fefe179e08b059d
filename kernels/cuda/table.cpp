#include "kernels/cuda/table.hpp"

#include "kernels/cuda/ops.hpp"
#include "kernels/cuda/products.hpp"

namespace weir::kernels {

namespace {

template <activation_format Format>
void add_products(kernel_table<float>& out) {
  out.gemm = cuda::gemm<Format>;
  out.gemm_workspace_bytes = cuda::gemm_workspace_bytes<Format>;
  out.experts = cuda::experts<Format>;
  out.experts_workspace_bytes = cuda::experts_workspace_bytes<Format>;
  out.mla = cuda::mla<Format>;
  out.mla_workspace_bytes = cuda::mla_workspace_bytes<Format>;
}

}  // namespace

kernel_table<float> make_cuda_table(activation_format activations) {
  kernel_table<float> out{};
  out.name = activations == activation_format::narrow ? "cuda narrow" : "cuda";

  out.rmsnorm = cuda::rmsnorm;
  out.l2norm = cuda::l2norm;
  out.embed = cuda::embed;
  out.short_conv = cuda::short_conv;
  out.kda = cuda::kda;
  out.kda_gate = cuda::kda_gate;
  out.gated_norm = cuda::gated_norm;
  out.mla_store = cuda::mla_store;
  out.router = cuda::router;
  out.silu_mul = cuda::silu_mul;
  out.situ_mul = cuda::situ_mul;
  out.sigmoid_mul = cuda::sigmoid_mul;
  out.residual_mix = cuda::residual_mix;
  out.gather = cuda::gather;
  out.add = cuda::add;

  activations == activation_format::narrow ? add_products<activation_format::narrow>(out)
                                           : add_products<activation_format::float32>(out);
  return out;
}

}  // namespace weir::kernels
