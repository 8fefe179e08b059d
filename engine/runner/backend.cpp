#include "engine/runner/backend.hpp"

#include <atomic>

namespace weir::engine::runner {

namespace {

std::atomic<const device_backend*> g_cuda{nullptr};

}  // namespace

const device_backend* cuda_backend() noexcept {
  return g_cuda.load(std::memory_order_acquire);
}

void link_cuda_backend(const device_backend* backend) noexcept {
  g_cuda.store(backend, std::memory_order_release);
}

result<backend_kind> resolve(backend_kind wanted) {
  if (wanted == backend_kind::cpu || wanted == backend_kind::reference) return wanted;
  const device_backend* const cuda = cuda_backend();
  if (cuda != nullptr && cuda->count() > 0) return backend_kind::cuda;
  if (wanted == backend_kind::automatic) return backend_kind::cpu;
  return fail(
      errc::unsupported,
      cuda == nullptr
          ? "backend cuda: this program was built without CUDA (cmake --preset cuda, or make run where "
            "there is a GPU and nvcc)"
          : "backend cuda: the driver reports no device");
}

}  // namespace weir::engine::runner
