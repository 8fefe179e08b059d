#include "engine/cuda/cuda_backend.hpp"

#include <string>

#include <cuda_runtime_api.h>

#include "engine/cuda/cuda_device.hpp"
#if WEIR_NCCL
#include "engine/cuda/nccl_communicator.hpp"
#endif
#include "engine/runner/backend.hpp"
#include "kernels/cuda/table.hpp"

namespace weir::engine::cuda {

namespace {

int count() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess ? devices : 0;
}

result<runner::device_facts> facts(int index) {
  const auto refuse = [index](cudaError_t code) {
    return fail(errc::io, "CUDA device " + std::to_string(index) + ": " + cudaGetErrorString(code));
  };
  const int devices = count();
  if (index < 0 || index >= devices) {
    return fail(errc::bad_request, "there is no CUDA device " + std::to_string(index) +
                                       ": this machine has " + std::to_string(devices));
  }
  cudaDeviceProp properties{};
  if (const auto code = cudaGetDeviceProperties(&properties, index); code != cudaSuccess) return refuse(code);
  if (const auto code = cudaSetDevice(index); code != cudaSuccess) return refuse(code);
  std::size_t unused = 0;
  std::size_t all = 0;
  if (const auto code = cudaMemGetInfo(&unused, &all); code != cudaSuccess) return refuse(code);
  runner::device_facts out;
  out.name = properties.name;
  out.memory_bytes = static_cast<std::int64_t>(all);
  out.free_memory_bytes = static_cast<std::int64_t>(unused);
  return out;
}

#if WEIR_NCCL
constexpr auto k_join = join_by_nccl;
#else
constexpr decltype(runner::device_backend::join) k_join = nullptr;
#endif

constexpr runner::device_backend k_backend{count, facts, cuda_device::open, kernels::make_cuda_table, k_join};

}  // namespace

void link_backend() noexcept {
  runner::link_cuda_backend(&k_backend);
}

}  // namespace weir::engine::cuda
