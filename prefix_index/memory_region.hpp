// One reserved range of address space from which the index carves its tables, records and entries. Memory is
// zero when carved and stays where it is: a reader that raced with a writer reads old or zero words, never an
// unmapped page. Only discard() gives memory back to the system; its addresses are not carved again. What may
// be discarded lies apart from what may not, so that the latter keeps its huge pages.
//
// Threads: any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weir::prefix_index {

inline constexpr std::size_t k_region_page_bytes = 4096;

enum class region_part : std::uint8_t { lasting, discardable };

class memory_region final {
 public:
  // Throws std::bad_alloc when the address space cannot be reserved.
  explicit memory_region(std::size_t bytes_max);
  ~memory_region();
  memory_region(const memory_region&) = delete;
  memory_region& operator=(const memory_region&) = delete;

  // Offset of `bytes` zero bytes, aligned to 64 (to a page from one page on); 0 when the limit is reached.
  std::uint64_t carve(std::size_t bytes, region_part part = region_part::lasting);

  // REQUIRES: carved as discardable. Contents become zero; whole pages go back to the system and no longer
  // count.
  void discard(std::uint64_t offset, std::size_t bytes);

  std::uint64_t* words(std::uint64_t offset) const {
    return reinterpret_cast<std::uint64_t*>(base_ + offset);
  }
  std::size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  std::size_t bytes_max() const { return bytes_max_; }

 private:
  const std::size_t bytes_max_;
  const std::size_t reserved_bytes_;
  std::byte* base_ = nullptr;
  std::atomic<std::size_t> next_lasting_;
  std::atomic<std::size_t> next_discardable_;
  std::atomic<std::size_t> bytes_ = 0;
};

}  // namespace weir::prefix_index
