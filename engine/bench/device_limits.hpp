// What a device can do, in the terms of kernels/machine.hpp: copying its memory, and one large product of its
// own library or kernels. Blocks; any thread.
#pragma once

#include "engine/result.hpp"
#include "kernels/machine.hpp"

namespace weir::engine::bench {

// Of CUDA device `index`. Reading is what a copy reads and writes, a second.
result<kernels::machine_limits> measure_device(int index);

}  // namespace weir::engine::bench
