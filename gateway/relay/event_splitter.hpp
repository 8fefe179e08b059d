// Finds whole server-sent events in a stream of bytes that is cut anywhere, without changing a byte. Lines
// end in LF, CR or CRLF, in any mix, as the WHATWG HTML standard allows (section 9.2.5).
//
// Sans-IO: remembers how far it looked, so each byte is looked at once. An event that ends in CR is whole at
// once; an LF that follows it only then belongs to that line end and becomes the first byte of what comes
// next. Threads: one owner.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace weir::gateway::relay {

// The first CR or LF at or behind `from`, else the end. REQUIRES: from <= the size.
std::size_t find_line_end(std::string_view buffer, std::size_t from) noexcept;

class event_splitter final {
 public:
  // `buffer` begins behind the events returned before. The size of its first whole event with its blank line,
  // or nothing: show it again with more bytes.
  std::optional<std::size_t> next(std::string_view buffer);

  // The last event ended in CR, whose LF may still come.
  bool awaits_lf() const noexcept { return after_cr_ && scanned_ == 0; }

 private:
  std::size_t scanned_ = 0;
  std::size_t line_begin_ = 0;
  bool after_cr_ = false;  // the byte before `scanned_` ended a line as CR: an LF now is part of that end
};

}  // namespace weir::gateway::relay
