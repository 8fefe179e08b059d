#include "gateway/relay/event_splitter.hpp"

#include <algorithm>
#include <cstring>

namespace weir::gateway::relay {

// In steps, so that a stream of one kind of line end is not searched to its end for the other at each line.
std::size_t find_line_end(std::string_view buffer, std::size_t from) noexcept {
  constexpr std::size_t k_step_bytes = 128;
  while (from < buffer.size()) {
    const char* const begin = buffer.data() + from;
    std::size_t bytes = std::min(k_step_bytes, buffer.size() - from);
    const auto* const lf = static_cast<const char*>(std::memchr(begin, '\n', bytes));
    if (lf != nullptr) bytes = static_cast<std::size_t>(lf - begin);
    const auto* const cr = static_cast<const char*>(std::memchr(begin, '\r', bytes));
    if (cr != nullptr) return from + static_cast<std::size_t>(cr - begin);
    from += bytes;
    if (lf != nullptr) return from;
  }
  return from;
}

std::optional<std::size_t> event_splitter::next(std::string_view buffer) {
  while (scanned_ < buffer.size()) {
    if (after_cr_) {
      after_cr_ = false;
      if (buffer[scanned_] == '\n') line_begin_ = ++scanned_;
      continue;
    }
    const std::size_t end = find_line_end(buffer, scanned_);
    scanned_ = end;
    if (end == buffer.size()) break;
    const bool blank = end == line_begin_;
    const bool cr = buffer[end] == '\r';
    line_begin_ = ++scanned_;
    after_cr_ = cr;
    if (!blank) continue;
    // The LF of this CRLF may be there already.
    if (cr && scanned_ < buffer.size()) {
      after_cr_ = false;
      if (buffer[scanned_] == '\n') ++scanned_;
    }
    const std::size_t size = scanned_;
    scanned_ = 0;
    line_begin_ = 0;
    return size;
  }
  return std::nullopt;
}

}  // namespace weir::gateway::relay
