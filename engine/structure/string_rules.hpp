// What grammars of JSON share: white space, strings, numbers and fixed texts as rules of a builder.
//
// White space stands where writers of JSON put it: behind `{ [ , :` and before `} ]`, as nothing, one space,
// or a newline with up to 32 spaces or tabs. Strings without a pattern take every escape of JSON; texts that
// are compared with something (names, enums, patterns) have one spelling, canonical_string(). A builder's own
// thread.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "engine/structure/char_automaton.hpp"
#include "engine/structure/grammar.hpp"

namespace weir::engine::structure {

class string_rules final {
 public:
  explicit string_rules(grammar_builder& out) : out_(out) {}

  // Optional white space.
  void space(state_id from, state_id to);

  // Any JSON string, quotes included.
  rule_id any();
  // With min to max characters.
  rule_id counted(std::uint32_t min, std::uint32_t max);
  // Those that the automaton accepts.
  rule_id of(const char_automaton& chars);

  // One of the texts, sharing what they begin with.
  void one_of(state_id from, std::span<const std::string> texts, state_id to);

 private:
  rule_id character();
  void body(state_id at);
  void one_ascii(state_id from, state_id to);
  void escapes(state_id from, state_id to);
  void unicode_escape(state_id from, state_id to);
  void non_ascii(state_id from, state_id to);
  state_id continuation(state_id to);
  void code_points(state_id from, char32_t low, char32_t high, state_id to);
  state_id tail(std::string_view text, state_id to);
  void utf8(state_id from, char32_t low, char32_t high, state_id to);
  void utf8_bits(state_id from, char32_t low, char32_t high, int bytes, symbol mark, state_id to);

  grammar_builder& out_;
  std::optional<rule_id> space_;
  std::optional<rule_id> any_;
  std::optional<rule_id> character_;
  std::map<state_id, state_id> continuations_;  // state -> one that reads a continuation byte before it
  std::map<std::pair<state_id, std::string>, state_id> tails_;               // the same for a text
  std::map<std::tuple<state_id, char32_t, char32_t, int>, state_id> parts_;  // and for utf8_bits() of 0x80
};

}  // namespace weir::engine::structure
