// Deterministic automata over code points: what a pattern, a length or a list of forbidden names says about a
// string. Values; any thread once made.
//
// Invariants: state 0 is the start; the ranges of a state are sorted and do not overlap; a code point outside
// them leads nowhere.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/result.hpp"

namespace weir::engine::structure {

struct char_range {
  char32_t low;
  char32_t high;
  std::uint32_t to;

  friend bool operator==(const char_range&, const char_range&) = default;
};

struct char_state {
  bool accepts = false;
  bool everything = false;  // whatever follows is accepted: one range over all code points, to itself
  std::vector<char_range> ranges;
};

struct char_automaton {
  std::vector<char_state> states;

  // Text is UTF-8; what is none is not accepted.
  bool accepts(std::string_view text) const;
};

// Every string.
char_automaton any_string();

// Strings that are none of `names`. errc::bad_request beyond k_string_states_max.
result<char_automaton> all_but(std::span<const std::string> names);

// Strings that both accept.
result<char_automaton> both(const char_automaton& a, const char_automaton& b);

// Strings of `a` with min to max code points; max may be k_no_limit.
result<char_automaton> with_length(const char_automaton& a, std::uint32_t min, std::uint32_t max);

}  // namespace weir::engine::structure
