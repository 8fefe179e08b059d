#include "tests/gpu/waiting_table.hpp"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

namespace weir::kernels {

namespace {

using table = kernel_table<float>;

void wait_for(const char* what) {
  cudaError_t code = cudaGetLastError();
  if (code == cudaSuccess) code = cudaDeviceSynchronize();
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(code));
  std::_Exit(1);
}

template <activation_format Format>
const table& inner() {
  static const table out = make_cuda_table(Format);
  return out;
}

template <activation_format Format, auto Operation, class Params>
void done(const Params& p, const context& ctx) {
  (inner<Format>().*Operation)(p, ctx);
  wait_for(__PRETTY_FUNCTION__);
}

template <activation_format Format>
table make() {
  table out = inner<Format>();
  out.gemm = done<Format, &table::gemm>;
  out.rmsnorm = done<Format, &table::rmsnorm>;
  out.l2norm = done<Format, &table::l2norm>;
  out.embed = done<Format, &table::embed>;
  out.short_conv = done<Format, &table::short_conv>;
  out.kda_gate = done<Format, &table::kda_gate>;
  out.kda = done<Format, &table::kda>;
  out.gated_norm = done<Format, &table::gated_norm>;
  out.mla_store = done<Format, &table::mla_store>;
  out.mla = done<Format, &table::mla>;
  out.router = done<Format, &table::router>;
  out.experts = done<Format, &table::experts>;
  out.silu_mul = done<Format, &table::silu_mul>;
  out.situ_mul = done<Format, &table::situ_mul>;
  out.sigmoid_mul = done<Format, &table::sigmoid_mul>;
  out.residual_mix = done<Format, &table::residual_mix>;
  out.gather = done<Format, &table::gather>;
  out.add = done<Format, &table::add>;
  return out;
}

}  // namespace

kernel_table<float> make_waiting_cuda_table(activation_format activations) {
  return activations == activation_format::narrow ? make<activation_format::narrow>()
                                                  : make<activation_format::float32>();
}

}  // namespace weir::kernels
