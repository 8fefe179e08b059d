// Backends that compute elsewhere than on the host. Which there are depends on what a program links:
// cuda::link_backend() of engine/cuda names the one for NVIDIA's devices, before an engine is opened.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/engine.hpp"
#include "engine/parallel/communicator.hpp"
#include "engine/result.hpp"
#include "engine/runner/device.hpp"
#include "kernels/table.hpp"

namespace weir::engine::runner {

struct device_facts {
  std::string name;                    // as its maker says it
  std::int64_t memory_bytes = 0;       // of it all
  std::int64_t free_memory_bytes = 0;  // now
};

struct device_backend {
  int (*count)();  // devices, 0 where there is no driver
  // errc::unsupported or errc::io say why not.
  result<device_facts> (*facts)(int index);
  result<std::unique_ptr<device>> (*open)(int index);
  kernels::kernel_table<float> (*table)(kernels::activation_format activations);
  // Of ranks that know each other by `host`, over their devices; both outlive it. Null: this build has none.
  result<std::unique_ptr<parallel::communicator>> (*join)(parallel::communicator& host, device& where);
};

// Null: this program has none. `backend` outlives every engine.
const device_backend* cuda_backend() noexcept;
void link_cuda_backend(const device_backend* backend) noexcept;

// What automatic means on this machine. errc::unsupported where cuda was asked for and this program, or this
// machine, has none.
result<backend_kind> resolve(backend_kind wanted);

}  // namespace weir::engine::runner
