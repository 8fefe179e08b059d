// Drives a stream translator as the relay does: bytes cut anywhere, whole events found by event_splitter.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gateway/relay/event_splitter.hpp"

namespace weir::gateway::dialects::testing {

// Pushes `bytes` cut at `cut` into `stream`; what it appends.
template <class Stream>
std::string run(Stream& stream, std::string_view bytes, std::size_t cut) {
  relay::event_splitter splitter;
  std::string buffer;
  std::string out;
  for (const std::string_view part : {bytes.substr(0, cut), bytes.substr(cut)}) {
    buffer += part;
    while (const auto size = splitter.next(buffer)) {
      stream.push(std::string_view(buffer).substr(0, *size), out);
      buffer.erase(0, *size);
    }
  }
  return out;
}

template <class Stream>
std::string run(Stream& stream, std::string_view bytes) {
  return run(stream, bytes, bytes.size());
}

}  // namespace weir::gateway::dialects::testing
