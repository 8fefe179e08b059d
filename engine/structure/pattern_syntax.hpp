// The text of a pattern as a tree. What of ECMA-262 is understood stands in pattern.hpp. Pure; any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/result.hpp"

namespace weir::engine::structure {

struct code_points {
  char32_t low;
  char32_t high;
};
using char_set = std::vector<code_points>;  // sorted, no two touch

enum class pattern_op : std::uint8_t { chars, sequence, choice, repeat, at_begin, at_end };

struct pattern_node {
  pattern_op op = pattern_op::sequence;  // an empty sequence is the empty text
  char_set set;                          // chars
  std::vector<std::uint32_t> parts;      // sequence and choice; one of repeat
  std::int64_t min = 0;                  // repeat
  std::int64_t max = -1;                 // repeat; -1: no limit
};

struct pattern_tree {
  std::vector<pattern_node> nodes;
  std::uint32_t root = 0;
};

result<pattern_tree> parse_pattern(std::string_view pattern);

}  // namespace weir::engine::structure
