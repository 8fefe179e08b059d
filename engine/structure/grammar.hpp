// A language over bytes and markers as a recursive transition network: rules, each a nondeterministic
// automaton whose edges read a byte range or call a rule between `min` and `max` times. Markers are symbols
// above the bytes; they stand for special tokens.
//
// A builder collects rules and finish() makes them a grammar: edges without input are gone, whatever cannot
// end is cut off, and no rule may call itself before it read a symbol. So in a grammar every state that can
// be reached can be finished, and matching has no dead ends. A builder belongs to one thread; a grammar is
// immutable, any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/result.hpp"
#include "engine/structure/limits.hpp"

namespace weir::engine::structure {

using state_id = std::uint32_t;
using rule_id = std::uint32_t;
using symbol = std::uint16_t;  // 0..255: a byte; k_first_marker + i: marker i

inline constexpr symbol k_first_marker = 256;
inline constexpr std::uint32_t k_no_limit = 0xFFFFFFFF;
inline constexpr std::uint32_t k_never = 0xFFFFFFFF;

struct symbol_edge {
  symbol low;
  symbol high;
  state_id to;
};

// Reads `rule` min to max times (k_no_limit: any number), then goes on at `to`.
struct call_site {
  rule_id rule;
  std::uint32_t min;
  std::uint32_t max;
  state_id to;
};

struct grammar_state {
  std::uint32_t first_edge = 0;
  std::uint32_t first_call = 0;
  bool ends_rule = false;
  // Calls that must still be opened at once, at least, until the rule ends; k_never: it cannot.
  std::uint32_t depth_needed = k_never;
  // How many plain characters may follow here; a state of strings says so, see string_rules.hpp.
  bool plain_text = false;
};

struct grammar_rule {
  state_id start;
  std::uint32_t rank;       // above that of every rule that may call it before reading a symbol
  bool plain_char = false;  // reads one character, any plain one among them
};

struct grammar {
  std::vector<grammar_rule> rules;
  std::vector<grammar_state> states;  // one more than there are: the end of the last one's edges
  std::vector<symbol_edge> edges;
  std::vector<call_site> calls;          // all sites
  std::vector<std::uint32_t> call_list;  // indices into `calls`, by state
  rule_id root = 0;

  std::span<const symbol_edge> edges_of(state_id s) const noexcept {
    return {edges.data() + states[s].first_edge, edges.data() + states[s + 1].first_edge};
  }
  std::span<const std::uint32_t> calls_of(state_id s) const noexcept {
    return {call_list.data() + states[s].first_call, call_list.data() + states[s + 1].first_call};
  }
  std::size_t bytes() const noexcept;
};

class grammar_builder final {
 public:
  // Every operation is a step; beyond a limit nothing is added any more and why() says which.
  bool ok() const noexcept { return fault_.empty(); }
  std::string_view why() const noexcept { return fault_; }
  bool spend(std::size_t steps);

  rule_id add_rule();
  state_id start(rule_id rule) const noexcept { return rules_[rule].start; }
  state_id end(rule_id rule) const noexcept { return rules_[rule].end; }
  void mark_plain_char(rule_id rule) { rules_[rule].plain_char = true; }
  void mark_plain_text(state_id state) { states_[state].plain_text = true; }

  state_id add_state();
  void read(state_id from, symbol low, symbol high, state_id to);
  void read(state_id from, symbol only, state_id to) { read(from, only, only, to); }
  void skip(state_id from, state_id to);
  // REQUIRES: the rule reads at least one symbol; min <= max, max > 0.
  void call(state_id from, rule_id rule, state_id to, std::uint32_t min = 1, std::uint32_t max = 1);
  // The bytes one after another.
  void text(state_id from, std::string_view bytes, state_id to);

  // errc::bad_request where a limit was met, a rule calls itself first, or no text belongs to the language.
  result<grammar> finish(rule_id root);

 private:
  struct rule_draft {
    state_id start;
    state_id end;
    bool plain_char = false;
  };
  struct state_draft {
    std::vector<symbol_edge> edges;
    std::vector<std::uint32_t> calls;
    std::vector<state_id> skips;
    bool plain_text = false;
  };

  void close_skips(grammar& out);
  static void find_depths(grammar& out);
  void cut_dead_ends(grammar& out) const;
  bool rank_rules(grammar& out) const;

  std::string fault_;
  std::size_t steps_ = 0;
  std::vector<rule_draft> rules_;
  std::vector<state_draft> states_;
  std::vector<call_site> calls_;
};

}  // namespace weir::engine::structure
