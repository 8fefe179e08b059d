#include "engine/model/huge_arena.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <utility>

namespace weir::engine::model {

namespace {

constexpr std::size_t k_block_bytes = std::size_t{256} << 20;
constexpr std::size_t k_align = 64;

}  // namespace

huge_arena::~huge_arena() {
  for (const block& b : blocks_) ::munmap(b.data, b.bytes);
}

huge_arena::huge_arena(huge_arena&& other) noexcept : blocks_(std::exchange(other.blocks_, {})) {}

huge_arena& huge_arena::operator=(huge_arena&& other) noexcept {
  std::swap(blocks_, other.blocks_);
  return *this;
}

std::span<std::byte> huge_arena::take(std::size_t bytes) {
  const std::size_t need = (bytes + k_align - 1) / k_align * k_align;
  if (blocks_.empty() || blocks_.back().bytes - blocks_.back().used < need) {
    const std::size_t size = std::max(need, k_block_bytes);
    blocks_.reserve(blocks_.size() + 1);
    void* made = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) throw std::bad_alloc();
    ::madvise(made, size, MADV_HUGEPAGE);
    blocks_.push_back({static_cast<std::byte*>(made), size, 0});
  }
  block& last = blocks_.back();
  std::byte* begin = last.data + last.used;
  last.used += need;
  return {begin, bytes};
}

}  // namespace weir::engine::model
