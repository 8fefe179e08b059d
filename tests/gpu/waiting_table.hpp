// A table in front of CUDA's whose operations have been done when they return, as the tests of the emulated
// ones expect it; a fault ends the program with the operation's name.
#pragma once

#include "kernels/cuda/table.hpp"

namespace weir::kernels {

kernel_table<float> make_waiting_cuda_table(activation_format activations);

}  // namespace weir::kernels
