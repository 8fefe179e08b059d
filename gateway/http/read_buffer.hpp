// The bytes received on a connection and not yet consumed, contiguous, with room behind them. One owner.
//
// A small block is kept for as long as the connection lives, a large one only while it is needed: bodies come
// in through a few blocks that stay warm, where each connection's own would be cold and the heap's search for
// it dear. Threads: one at a time; a large block goes back to the thread that ends with it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/http/limits.hpp"

namespace weir::gateway::http {

class read_buffer final {
 public:
  read_buffer() = default;
  ~read_buffer() { give_back(); }
  read_buffer(const read_buffer&) = delete;
  read_buffer& operator=(const read_buffer&) = delete;

  std::string_view unread() const noexcept { return {at_ + begin_, end_ - begin_}; }
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
      std::memmove(at_, at_ + begin_, unread_bytes);
      begin_ = 0;
      end_ = unread_bytes;
    }
    return {at_ + end_, std::min(capacity_ - end_, bytes_max - unread_bytes)};
  }
  void commit(std::size_t bytes) noexcept { end_ += bytes; }

  // Gives a large block back where what is unread fits a small one. REQUIRES as prepare.
  void shrink() {
    if (large_ && end_ - begin_ <= k_idle_buffer_bytes) move_to(k_idle_buffer_bytes);
  }

 private:
  using block = std::unique_ptr<char[]>;

  static std::vector<block>& spare_blocks() {
    thread_local std::vector<block> blocks;
    return blocks;
  }

  static block take(std::size_t bytes) {
    auto& spare = spare_blocks();
    if (bytes != k_body_buffer_bytes || spare.empty()) return std::make_unique_for_overwrite<char[]>(bytes);
    block out = std::move(spare.back());
    spare.pop_back();
    return out;
  }

  void give_back() {
    auto& spare = spare_blocks();
    if (large_ && capacity_ == k_body_buffer_bytes && spare.size() < k_spare_buffers_max) {
      spare.push_back(std::move(large_));
    }
    large_.reset();
  }

  void move_to(std::size_t bytes) {
    const bool is_large = bytes > k_idle_buffer_bytes;
    block large = is_large ? take(bytes) : nullptr;
    if (!is_large && !small_) small_ = std::make_unique_for_overwrite<char[]>(k_idle_buffer_bytes);
    char* const to = is_large ? large.get() : small_.get();
    const std::size_t unread_bytes = end_ - begin_;
    if (unread_bytes > 0) std::memcpy(to, at_ + begin_, unread_bytes);
    give_back();
    large_ = std::move(large);
    at_ = to;
    capacity_ = is_large ? bytes : k_idle_buffer_bytes;
    begin_ = 0;
    end_ = unread_bytes;
  }

  block small_;  // of k_idle_buffer_bytes, or none yet
  block large_;  // none: the bytes are in the small one
  char* at_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace weir::gateway::http
