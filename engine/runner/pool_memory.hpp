// The bytes of the one pool, and where each layer's part of a slab and of a page lies. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/kv/memory_op.hpp"
#include "engine/runner/model_runner.hpp"

namespace weir::engine::runner {

// A layer's part of slab 0 or page 0, up to the pool's end; that of the next slab or page is slab_cells() or
// page_cells() further. A KDA layer has state and convolution tails, an MLA layer has pages.
template <class A>
struct layer_memory {
  std::span<A> state;    // [H, D, D] in each slab
  std::span<A> conv[3];  // q, k, v: [K-1, C] in each slab
  std::span<A> pages;    // [P, R + Dr] in each page
};

template <class A>
class pool_memory final {
 public:
  // Throws std::bad_alloc. The bytes are touched only as they are used.
  pool_memory(const model::model_config& config, const runner_config& options);

  std::size_t size() const noexcept { return layers_.size(); }
  const layer_memory<A>& operator[](std::size_t layer) const noexcept { return layers_[layer]; }
  std::int64_t slab_cells() const noexcept { return page_cells_ * layout_.slab_pages; }
  std::int64_t page_cells() const noexcept { return page_cells_; }

  void copy(std::span<const kv::memory_op> ops);

 private:
  memory_layout layout_;
  std::int64_t page_cells_;
  std::int64_t state_cells_;  // of a slab, as far as a state uses it
  std::unique_ptr<A[]> cells_;
  std::vector<layer_memory<A>> layers_;
};

extern template class pool_memory<double>;
extern template class pool_memory<float>;

}  // namespace weir::engine::runner
