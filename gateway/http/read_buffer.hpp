// The bytes received on a connection and not yet consumed, contiguous, with room behind them. One owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

namespace weir::gateway::http {

class read_buffer final {
 public:
  std::string_view unread() const noexcept { return {bytes_.get() + begin_, end_ - begin_}; }
  void consume(std::size_t bytes) noexcept { begin_ += bytes; }

  // Room for up to bytes_max unread bytes in all; empty where that many are unread. Moves what is unread:
  // REQUIRES that no read into an earlier room is pending.
  std::span<char> prepare(std::size_t bytes_max) {
    const std::size_t unread_bytes = end_ - begin_;
    if (unread_bytes >= bytes_max) return {};
    if (unread_bytes == 0) begin_ = end_ = 0;
    if (capacity_ < bytes_max) {
      move_to(bytes_max);
    } else if (begin_ > 0 && capacity_ - end_ < (bytes_max - unread_bytes + 1) / 2) {
      std::memmove(bytes_.get(), bytes_.get() + begin_, unread_bytes);
      begin_ = 0;
      end_ = unread_bytes;
    }
    return {bytes_.get() + end_, std::min(capacity_ - end_, bytes_max - unread_bytes)};
  }
  void commit(std::size_t bytes) noexcept { end_ += bytes; }

  // Gives memory back down to `bytes` where what is unread fits. REQUIRES as prepare.
  void shrink(std::size_t bytes) {
    if (capacity_ > bytes && end_ - begin_ <= bytes) move_to(bytes);
  }

 private:
  void move_to(std::size_t capacity) {
    auto moved = std::make_unique_for_overwrite<char[]>(capacity);
    const std::size_t unread_bytes = end_ - begin_;
    if (unread_bytes > 0) std::memcpy(moved.get(), bytes_.get() + begin_, unread_bytes);
    bytes_ = std::move(moved);
    capacity_ = capacity;
    begin_ = 0;
    end_ = unread_bytes;
  }

  std::unique_ptr<char[]> bytes_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace weir::gateway::http
