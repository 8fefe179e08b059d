// The bytes of the one pool, and where each layer's part of a slab and of a page lies. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/kv/memory_op.hpp"
#include "engine/runner/device.hpp"
#include "engine/runner/model_runner.hpp"

namespace weir::engine::runner {

// A layer's part of slab 0 or page 0; that of the next slab or page is slab_cells() or page_cells() further.
// A KDA layer has state and convolution tails, an MLA layer has pages.
template <class A>
struct layer_memory {
  A* state = nullptr;     // [H, D, D] in each slab
  A* conv[3] = {};        // q, k, v: [K-1, C] in each slab
  void* pages = nullptr;  // [P, R + Dr] in each page
};

template <class A>
class pool_memory final {
 public:
  // Throws std::bad_alloc. The host's bytes are touched only as they are used.
  pool_memory(const model::model_config& config, const runner_config& options, device& where);

  std::size_t size() const noexcept { return layers_.size(); }
  const layer_memory<A>& operator[](std::size_t layer) const noexcept { return layers_[layer]; }
  // In numbers of a state, and of a latent.
  std::int64_t slab_cells() const noexcept {
    return layout_.slab_bytes() / static_cast<std::int64_t>(sizeof(A));
  }
  std::int64_t page_cells() const noexcept { return layout_.page_bytes / numbers_.latent; }

  kernels::latent_format format() const noexcept {
    return numbers_.latent == sizeof(A) ? kernels::latent_format::activation : kernels::latent_format::bf16;
  }

  void copy(std::span<const kv::memory_op> ops);

 private:
  device& device_;
  number_bytes numbers_;
  memory_layout layout_;
  std::int64_t state_bytes_;  // of a slab, as far as a state uses it
  scratch<std::byte> bytes_;
  std::vector<layer_memory<A>> layers_;
};

extern template class pool_memory<double>;
extern template class pool_memory<float>;

}  // namespace weir::engine::runner
