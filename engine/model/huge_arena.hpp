// Memory for weights that are made rather than mapped: big blocks of anonymous memory in huge pages, cut into
// pieces that live as long as the arena. One thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace weir::engine::model {

class huge_arena final {
 public:
  huge_arena() = default;
  ~huge_arena();
  huge_arena(huge_arena&& other) noexcept;
  huge_arena& operator=(huge_arena&& other) noexcept;
  huge_arena(const huge_arena&) = delete;
  huge_arena& operator=(const huge_arena&) = delete;

  // Aligned to 64, zero at first. Throws std::bad_alloc.
  std::span<std::byte> take(std::size_t bytes);

 private:
  struct block {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    std::size_t used = 0;
  };
  std::vector<block> blocks_;
};

}  // namespace weir::engine::model
