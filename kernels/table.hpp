// A backend as data: one function pointer per operation, resolved once at start. Nobody branches on hardware
// elsewhere. Immutable after it was made; any thread. An operation uses only the memory its parameters name.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/params.hpp"

namespace weir::kernels {

template <class A>
struct kernel_table {
  const char* name;
  void (*gemm)(const gemm_params<A>&, const context&);
  void (*rmsnorm)(const rmsnorm_params<A>&, const context&);
  void (*l2norm)(const l2norm_params<A>&, const context&);
  void (*embed)(const embed_params<A>&, const context&);
  void (*short_conv)(const short_conv_params<A>&, const context&);
  void (*kda_gate)(const kda_gate_params<A>&, const context&);
  void (*kda)(const kda_params<A>&, const context&);
  void (*gated_norm)(const gated_norm_params<A>&, const context&);
  void (*mla_store)(const mla_store_params<A>&, const context&);
  void (*mla)(const mla_params<A>&, const context&);
  void (*router)(const router_params<A>&, const context&);
  void (*experts)(const experts_params<A>&, const context&);
  void (*silu_mul)(const silu_mul_params<A>&, const context&);
  void (*situ_mul)(const situ_mul_params<A>&, const context&);
  void (*sigmoid_mul)(const sigmoid_mul_params<A>&, const context&);
  void (*residual_mix)(const residual_mix_params<A>&, const context&);
  void (*gather)(const gather_params<A>&, const context&);
  void (*add)(const add_params<A>&, const context&);

  // Workspace of the operations that need one; the pointers in the parameters are not read.
  std::size_t (*gemm_workspace_bytes)(const gemm_params<A>&, int thread_count);
  std::size_t (*mla_workspace_bytes)(const mla_params<A>&, int thread_count);
  std::size_t (*experts_workspace_bytes)(const experts_params<A>&, int thread_count);
};

// Scalar truth: double activations, state and accumulation; a row's result does not depend on the rest of the
// batch.
kernel_table<double> make_reference_table();

// What becomes of the activations that enter a matrix product.
enum class activation_format : std::uint8_t {
  float32,  // stay as they are
  narrow,   // rounded to the format of the weights: bf16 beside bf16, 8 bits beside int8 and MXFP4
};

// float32, vectorised for the best instruction set of this machine. Row results do not depend on the batch
// either.
kernel_table<float> make_cpu_table(activation_format activations = activation_format::float32);

}  // namespace weir::kernels
