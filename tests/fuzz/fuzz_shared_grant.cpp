// Replies of a store that is none: whatever it says, what is taken for a grant holds sane numbers. The input
// is a list, an element a line: ":7" an integer, "-ERR" an error, "*a,7,b,8" a list of texts, "text" a text.
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "gateway/shared/sync_codec.hpp"

using namespace weir::gateway::shared;

namespace {

using kind = store_value::kind;

store_value element(std::string_view line) {
  const std::string rest(line.substr(line.empty() ? 0 : 1));
  if (line.starts_with(':')) {
    store_value out{.is = kind::integer};
    std::from_chars(rest.data(), rest.data() + rest.size(), out.integer);
    return out;
  }
  if (line.starts_with('-')) return {.is = kind::error, .text = rest};
  if (!line.starts_with('*')) return {.is = kind::text, .text = std::string(line)};
  store_value out{.is = kind::list};
  for (std::size_t at = 0; at <= rest.size();) {
    const auto end = std::min(rest.find(',', at), rest.size());
    out.list.push_back({.is = kind::text, .text = rest.substr(at, end - at)});
    at = end + 1;
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  store_value reply{.is = kind::list};
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    reply.list.push_back(element(line));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  const auto got = read_grant(reply);
  if (!got) return 0;
  const bool sane = got->requests.units >= 0 && got->tokens.units >= 0 && got->slots >= 0 &&
                    got->day.claim >= 0 && got->month.claim >= 0 && got->day.total >= 0 &&
                    got->requests.ahead_ns >= 0 && got->tokens.ahead_ns >= 0 && got->grace_ms >= 0;
  if (!sane) std::abort();
  return 0;
}
