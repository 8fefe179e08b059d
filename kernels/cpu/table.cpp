#include "kernels/table.hpp"

#include "kernels/cpu/ops.hpp"

namespace weir::kernels {

namespace {

template <activation_format Format>
kernel_table<float> make_table() {
  return {
      .name = "cpu",
      .gemm = cpu::gemm<Format>,
      .rmsnorm = cpu::rmsnorm,
      .l2norm = cpu::l2norm,
      .embed = cpu::embed,
      .short_conv = cpu::short_conv,
      .kda_gate = cpu::kda_gate,
      .kda = cpu::kda,
      .gated_norm = cpu::gated_norm,
      .mla_store = cpu::mla_store,
      .mla = cpu::mla,
      .router = cpu::router,
      .experts = cpu::experts<Format>,
      .silu_mul = cpu::silu_mul,
      .situ_mul = cpu::situ_mul,
      .sigmoid_mul = cpu::sigmoid_mul,
      .residual_mix = cpu::residual_mix,
      .gather = cpu::gather,
      .add = cpu::add,
      .gemm_workspace_bytes = cpu::gemm_workspace_bytes<Format>,
      .mla_workspace_bytes = cpu::mla_workspace_bytes,
      .experts_workspace_bytes = cpu::experts_workspace_bytes<Format>,
  };
}

}  // namespace

kernel_table<float> make_cpu_table(activation_format activations) {
  return activations == activation_format::narrow ? make_table<activation_format::narrow>()
                                                  : make_table<activation_format::float32>();
}

}  // namespace weir::kernels
