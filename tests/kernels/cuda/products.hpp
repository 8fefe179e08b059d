// What tests of the CUDA backend's products share.
#pragma once

#include "kernels/cuda/table.hpp"
#include "tests/kernels/support.hpp"

namespace weir::tests {

// Activations as `narrow` multiplies them beside weights of `type`.
inline both narrowed(kernels::dtype type, const both& x) {
  both out = x;
  if (type != kernels::dtype::bf16 && type != kernels::dtype::mxfp4) return out;
  for (std::size_t i = 0; i < x.wide.size(); ++i) {
    out.narrow[i] = kernels::bf16_to_float(kernels::float_to_bf16(x.narrow[i]));
    out.wide[i] = static_cast<double>(out.narrow[i]);
  }
  return out;
}

}  // namespace weir::tests
