// The fields of one server-sent event. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

namespace weir::gateway::dialects {

struct event_fields {
  std::string_view name;  // of its last `event` line; views into the event
  std::string data;       // of its `data` lines, LF between; room behind it for a parser's padding
  bool has_data = false;
};

// `event`: whole, with or without its blank line; line ends are LF, CR or CRLF.
event_fields read_fields(std::string_view event);

}  // namespace weir::gateway::dialects
