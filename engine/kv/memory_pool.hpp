// Who holds what of the one pool that MLA pages and KDA states are carved from. The pool is a row of slabs of
// equal size; a slab is free, or one state, or slab_pages places for pages. Holds no memory itself.
//
// Pages are named by handles that stay while their place moves: when no slab is free but free places are
// spread over several, empty_slab() moves the pages of one slab to the others. So fragmentation never costs
// memory: a state fits if and only if free_pages() >= slab_pages(), a page if free_pages() >= 1.
//
// Pages are reference-counted, by sequences and by the cache apart; a state has one owner. Invariants: used +
// free == total, in units of a page; a place or slab has one owner at a time. One thread (the worker's).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "engine/kv/memory_op.hpp"

namespace weir::engine::kv {

struct pool_shape {
  std::int32_t slab_count = 1;
  std::int32_t slab_pages = 1;  // places of a slab: the product must fit 31 bits
};

enum class page_owner : std::uint8_t { sequence, cache };

class memory_pool final {
 public:
  explicit memory_pool(const pool_shape& shape);

  // A slab as a state; none when no slab is free (empty_slab() may help).
  std::optional<std::int32_t> acquire_state();
  void release_state(std::int32_t slab);

  // Frees a slab by moving its pages; the copies are appended to `ops`. False when too few places are free.
  bool empty_slab(std::vector<memory_op>& ops);

  // The handle of a page with one reference, a sequence's; none when the pool is full.
  std::optional<std::int32_t> acquire_page();

  // REQUIRES: the page is in use, and for release() that `owner` has a reference. The last one frees it.
  void retain_page(std::int32_t page, page_owner owner);
  void release_page(std::int32_t page, page_owner owner);

  // Where the page is now: slab * slab_pages + place within the slab.
  std::int32_t place(std::int32_t page) const noexcept;

  std::int32_t slab_pages() const noexcept { return shape_.slab_pages; }
  std::int64_t total_pages() const noexcept {
    return static_cast<std::int64_t>(shape_.slab_count) * shape_.slab_pages;
  }
  std::int64_t free_pages() const noexcept {
    return static_cast<std::int64_t>(free_slabs_.size()) * shape_.slab_pages + partial_free_;
  }
  std::int32_t states() const noexcept { return states_; }
  std::int32_t used_pages() const noexcept { return used_pages_; }
  std::int32_t cached_pages() const noexcept { return cached_pages_; }  // that only the cache holds

 private:
  enum class slab_use : std::uint8_t { free, state, pages };
  struct slab {
    slab_use use = slab_use::free;
    std::int32_t used = 0;         // pages in it
    std::int32_t fresh = 0;        // places from here on were never used since the slab became pages
    std::int32_t first_free = -1;  // of a chain through places_
  };
  struct page {
    std::int32_t place = -1;  // -1: the handle is unused
    std::int32_t sequences = 0;
    std::int32_t caches = 0;
  };

  std::int32_t take_place();  // REQUIRES: free_pages() > 0
  void give_place(std::int32_t place);
  void set_used(std::int32_t index, std::int32_t used);  // keeps partial_ and partial_free_

  pool_shape shape_;
  std::vector<slab> slabs_;
  std::vector<std::int32_t> free_slabs_;  // taken from the back: the lowest first
  std::set<std::pair<std::int32_t, std::int32_t>>
      partial_;                       // (used, slab) of slabs with pages and free places
  std::int64_t partial_free_ = 0;     // free places of those
  std::vector<std::int32_t> places_;  // per place: the page's handle, or the next free place of its slab
  std::vector<page> pages_;           // by handle
  std::vector<std::int32_t> free_handles_;
  std::int32_t states_ = 0;
  std::int32_t used_pages_ = 0;
  std::int32_t cached_pages_ = 0;
};

}  // namespace weir::engine::kv
