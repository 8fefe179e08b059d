#include "gateway/relay/event_splitter.hpp"

#include <algorithm>
#include <cstring>

namespace weir::gateway::relay {

namespace {

// The first CR or LF at or behind `from`.
std::size_t find_line_end(std::string_view buffer, std::size_t from) {
  const char* const begin = buffer.data() + from;
  const std::size_t bytes = buffer.size() - from;
  const void* const lf = std::memchr(begin, '\n', bytes);
  const std::size_t lf_at =
      lf == nullptr ? bytes : static_cast<std::size_t>(static_cast<const char*>(lf) - begin);
  const void* const cr = std::memchr(begin, '\r', lf_at);
  return from + (cr == nullptr ? lf_at : static_cast<std::size_t>(static_cast<const char*>(cr) - begin));
}

}  // namespace

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
