#include "prefix_index/memory_region.hpp"

#include <sys/mman.h>

#include <new>

namespace weir::prefix_index {

namespace {

constexpr std::size_t k_alignment_bytes = 64;

// Retired tables keep their addresses. They grow by a factor of 1.5 and are a quarter of all bytes, so all
// retired ones together need less than the limit once more. Lasting memory lies below them.
constexpr std::size_t k_reserved_factor = 2;
constexpr std::size_t k_huge_page_bytes = std::size_t{2} << 20;

constexpr std::size_t round_up(std::size_t n, std::size_t to) {
  return (n + to - 1) / to * to;
}

}  // namespace

memory_region::memory_region(std::size_t bytes_max)
    : bytes_max_(round_up(bytes_max, k_huge_page_bytes)),
      reserved_bytes_(bytes_max_ * k_reserved_factor + k_huge_page_bytes),
      next_lasting_(k_region_page_bytes),
      next_discardable_(bytes_max_ + k_huge_page_bytes) {
  void* p = ::mmap(nullptr, reserved_bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  base_ = static_cast<std::byte*>(p);
  ::madvise(base_, reserved_bytes_, MADV_HUGEPAGE);  // look-ups are random: fewer translation misses
}

memory_region::~memory_region() {
  ::munmap(base_, reserved_bytes_);
}

std::uint64_t memory_region::carve(std::size_t bytes, region_part part) {
  const auto alignment = bytes >= k_region_page_bytes ? k_region_page_bytes : k_alignment_bytes;
  bytes = round_up(bytes, alignment);
  if (bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes > bytes_max_) {
    bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    return 0;
  }
  const bool lasting = part == region_part::lasting;
  auto& place = lasting ? next_lasting_ : next_discardable_;
  const auto end = lasting ? bytes_max_ + k_huge_page_bytes : reserved_bytes_;
  auto next = place.load(std::memory_order_relaxed);
  std::size_t offset = 0;
  do {
    offset = round_up(next, alignment);
    if (offset + bytes > end) {
      bytes_.fetch_sub(bytes, std::memory_order_relaxed);
      return 0;
    }
  } while (!place.compare_exchange_weak(next, offset + bytes, std::memory_order_relaxed));
  return offset;
}

void memory_region::discard(std::uint64_t offset, std::size_t bytes) {
  if (bytes < k_region_page_bytes) return;
  bytes = round_up(bytes, k_region_page_bytes);
  ::madvise(base_ + offset, bytes, MADV_DONTNEED);
  bytes_.fetch_sub(bytes, std::memory_order_relaxed);
}

}  // namespace weir::prefix_index
