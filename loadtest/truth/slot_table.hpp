// Numbers of slots by the id and the part they hold: open addressing, linear probes, no tombstones. One
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weir::loadtest::truth {

using block_id = std::uint64_t;

enum class part : std::uint8_t { page, checkpoint };

class slot_table final {
 public:
  static constexpr std::uint32_t k_none = ~std::uint32_t{0};

  slot_table() { clear(); }

  // The slot of what was inserted, else k_none.
  std::uint32_t find(block_id id, part what) const noexcept;

  // REQUIRES: find(id, what) == k_none.
  void insert(block_id id, part what, std::uint32_t slot);

  // REQUIRES: find(id, what) != k_none.
  void erase(block_id id, part what) noexcept;

  void clear();
  std::size_t size() const noexcept { return size_; }

 private:
  struct cell {
    block_id id = 0;
    std::uint32_t slot = k_none;
    part what = part::page;
  };

  std::size_t home(block_id id, part what) const noexcept;
  std::size_t locate(block_id id,
                     part what) const noexcept;  // its cell or the empty one that ends its probes
  void grow();

  std::vector<cell> cells_;  // a power of two, at most half of them taken
  std::size_t size_ = 0;
};

}  // namespace weir::loadtest::truth
