#include "engine/runner/device.hpp"

#include <cstring>
#include <new>

namespace weir::engine::runner {

namespace {

constexpr std::align_val_t k_align{64};

}  // namespace

std::byte* host_device::allocate(std::size_t bytes) {
  return static_cast<std::byte*>(::operator new(bytes, k_align));
}

void host_device::release(std::byte* memory) noexcept {
  ::operator delete(memory, k_align);
}

void host_device::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace weir::engine::runner
