// How alike two answers are. Pure; any thread.
#pragma once

#include <string_view>

#include "gateway/shadow/answer.hpp"
#include "policy/comparison/pair.hpp"

namespace weir::gateway::shadow {

// Both texts as JSON: equal whatever the order of keys and the white space, and 1 equals 1.0. Absent where
// neither is an object or a list, in a fence of Markdown or bare; different where only one is.
policy::comparison::likeness compare_json(std::string_view a, std::string_view b);

// Names and arguments in order; arguments compare as JSON, or as text where they are none.
policy::comparison::likeness compare_calls(const std::vector<tool_call>& a, const std::vector<tool_call>& b);

policy::comparison::agreement agree(const answer& a, const answer& b);

}  // namespace weir::gateway::shadow
