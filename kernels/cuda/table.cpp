#include "kernels/cuda/table.hpp"

#include "kernels/cuda/ops.hpp"

namespace weir::kernels {

kernel_table<float> make_cuda_table(activation_format activations) {
  kernel_table<float> out{};
  out.name = activations == activation_format::narrow ? "cuda narrow" : "cuda";

  out.silu_mul = cuda::silu_mul;
  out.situ_mul = cuda::situ_mul;
  out.sigmoid_mul = cuda::sigmoid_mul;
  out.add = cuda::add;

  return out;
}

}  // namespace weir::kernels
