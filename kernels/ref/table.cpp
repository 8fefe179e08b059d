#include "kernels/table.hpp"

#include "kernels/ref/ops.hpp"

namespace weir::kernels {

kernel_table<double> make_reference_table() {
  return {
      .name = "reference",
      .gemm = ref::gemm,
      .rmsnorm = ref::rmsnorm,
      .l2norm = ref::l2norm,
      .embed = ref::embed,
      .short_conv = ref::short_conv,
      .kda_gate = ref::kda_gate,
      .kda = ref::kda,
      .gated_norm = ref::gated_norm,
      .mla_store = ref::mla_store,
      .mla = ref::mla,
      .router = ref::router,
      .experts = ref::experts,
      .silu_mul = ref::silu_mul,
      .situ_mul = ref::situ_mul,
      .sigmoid_mul = ref::sigmoid_mul,
      .residual_mix = ref::residual_mix,
      .gather = ref::gather,
      .add = ref::add,
      .gemm_workspace_bytes = [](const gemm_params<double>&, int) { return std::size_t{0}; },
      .mla_workspace_bytes = [](const mla_params<double>&, int) { return std::size_t{0}; },
      .experts_workspace_bytes = [](const experts_params<double>&, int) { return std::size_t{0}; },
  };
}

}  // namespace weir::kernels
