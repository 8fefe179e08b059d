// Zeroed memory straight from the system, to which it goes back at once when it is freed: a table that grows
// by moving to a larger one leaves no holes in the heap. Internal to the folder; external lock.
#pragma once

#include <cstddef>
#include <utility>

namespace weir::prefix_index {

inline constexpr std::size_t k_buffer_page_bytes = 4096;

class page_buffer final {
 public:
  page_buffer() = default;
  // Rounds up to whole pages. Throws std::bad_alloc.
  explicit page_buffer(std::size_t bytes);
  ~page_buffer();
  page_buffer(page_buffer&& from) noexcept
      : data_(std::exchange(from.data_, nullptr)), bytes_(std::exchange(from.bytes_, 0)) {}
  page_buffer& operator=(page_buffer&& from) noexcept {
    std::swap(data_, from.data_);
    std::swap(bytes_, from.bytes_);
    return *this;
  }

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace weir::prefix_index
