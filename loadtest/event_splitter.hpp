// Server-sent events from a byte stream: the text behind `data:` of each whole event, wherever the stream is
// cut. One stream, one thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weir::loadtest {

inline constexpr std::size_t k_event_bytes_max = 16 << 20;

class event_splitter final {
 public:
  // Appends the data of events that became whole. False when an event is longer than the limit.
  bool push(std::string_view bytes, std::vector<std::string>& events);

 private:
  std::string held_;
  std::string data_;
  bool after_cr_ = false;  // an LF now is the second half of a line end
};

}  // namespace weir::loadtest
