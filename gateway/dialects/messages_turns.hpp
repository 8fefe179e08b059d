// The messages of a chat request as the system blocks and turns of a messages request. There, tool results
// are blocks of the user's turn, all those of one assistant turn together, so neighbours of one side become
// one turn. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "gateway/api/json.hpp"

namespace weir::gateway::dialects {

struct messages_turns {
  std::string system;         // text blocks, comma between; empty: none
  std::string turns;          // likewise, of messages
  bool in_tool_turn = false;  // tools were called since the user last spoke
};

// The first fault is left in `in`, the reader of the request.
messages_turns write_turns(api::field_reader& in);

}  // namespace weir::gateway::dialects
