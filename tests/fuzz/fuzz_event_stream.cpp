// A target's event stream on arbitrary bytes: no fault, the same bytes and the same end whole, in two parts
// and byte by byte, and nothing but whole events of the input goes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tests/gateway/relay/stream_run.hpp"

using namespace weir::gateway;
using relay::testing::run;
using relay::testing::stream_outcome;

namespace {

constexpr std::size_t k_bytewise_bytes_max = 512;

// Events by the plain rule, a line at a time; the last one may lack its end.
std::vector<std::string_view> split(std::string_view bytes) {
  std::vector<std::string_view> events;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t line = at;
    while (at < bytes.size() && bytes[at] != '\r' && bytes[at] != '\n') ++at;
    const bool blank = at == line;
    if (at < bytes.size()) at += bytes.substr(at).starts_with("\r\n") ? 2 : 1;
    if (!blank && at < bytes.size()) continue;
    events.push_back(bytes.substr(begin, at - begin));
    begin = at;
  }
  return events;
}

bool made_of_events(std::string_view released, std::string_view input, bool may_skip) {
  for (const auto event : split(input)) {
    if (released.starts_with(event)) {
      released.remove_prefix(event.size());
    } else if (event.ends_with("\r\n") && released == event.substr(0, event.size() - 1)) {
      released = {};  // its last byte is not counted behind a failure
    } else if (!released.empty() && !may_skip) {
      return false;
    }
  }
  return released.empty() || released == "\n" || released == "\n\n";  // the last blank line, where it lacked
}

bool sane(const stream_outcome& out) {
  if (out.started != !out.released.empty()) return false;
  if (!out.failed) return true;
  if (out.message.empty()) return false;
  return (out.code == errc::stream_interrupted) == out.started;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  static relay::event_inspector inspector;
  const auto shape = (data[0] & 8) != 0   ? relay::event_shape::messages
                     : (data[0] & 4) != 0 ? relay::event_shape::responses
                                          : relay::event_shape::chunks;
  const relay::event_stream::options options{.drop_usage = (data[0] & 1) != 0, .shape = shape};
  const bool ends = (data[0] & 2) == 0;
  const std::size_t cut = static_cast<std::size_t>(data[1] * 256 + data[2]) % (size - 2);
  const std::string_view all(reinterpret_cast<const char*>(data + 3), size - 3);
  const stream_outcome whole = run(inspector, options, all, {all.size()}, ends);
  if (!sane(whole) || !made_of_events(whole.released, all, options.drop_usage)) std::abort();
  if (run(inspector, options, all, {cut, all.size()}, ends) != whole) std::abort();
  relay::event_stream narrow({.drop_usage = options.drop_usage, .event_bytes_max = 64, .shape = shape},
                             inspector);
  std::string released;
  if (relay::testing::drain(narrow, narrow.push(all), released)) narrow.end();
  if (all.size() > k_bytewise_bytes_max) return 0;
  std::vector<std::size_t> each(all.size() + 1);
  for (std::size_t i = 0; i < each.size(); ++i) each[i] = i;
  if (run(inspector, options, all, each, ends) != whole) std::abort();
  return 0;
}
