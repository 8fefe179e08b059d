#include "gateway/dialects/event_fields.hpp"

#include <simdjson.h>

#include <algorithm>

namespace weir::gateway::dialects {

namespace {

constexpr std::string_view k_byte_order_mark = "\xEF\xBB\xBF";

}  // namespace

event_fields read_fields(std::string_view event) {
  event_fields out;
  out.data.reserve(event.size() + simdjson::SIMDJSON_PADDING);
  if (event.starts_with(k_byte_order_mark)) event.remove_prefix(k_byte_order_mark.size());
  while (!event.empty()) {
    const std::size_t end = std::min(event.find_first_of("\r\n"), event.size());
    std::string_view line = event.substr(0, end);
    event.remove_prefix(std::min(end + 1, event.size()));
    const std::string_view name = line.substr(0, line.find(':'));
    line.remove_prefix(std::min(name.size() + 1, line.size()));
    if (line.starts_with(' ')) line.remove_prefix(1);
    if (name == "event") out.name = line;
    if (name != "data") continue;
    if (out.has_data) out.data += '\n';
    out.has_data = true;
    out.data += line;
  }
  return out;
}

}  // namespace weir::gateway::dialects
