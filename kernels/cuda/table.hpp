// The CUDA backend's table. Exists where the library was built: with a CUDA toolkit, or emulated for tests.
#pragma once

#include "kernels/table.hpp"

namespace weir::kernels {

// float32 over device memory, KDA state in float32. README.md says where a row depends on the batch.
kernel_table<float> make_cuda_table(activation_format activations);

}  // namespace weir::kernels
