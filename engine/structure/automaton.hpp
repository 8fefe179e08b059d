// A grammar as a deterministic automaton that is built as it is walked. A state is the set of all places
// where the text so far may be: a grammar state, and below it a stack of open calls. Stacks share what they
// have in common: a node holds all the calls that lead to one rule at one place, so that alternatives which
// begin alike cost once, however deep they nest.
//
// Invariants: a state other than k_dead can be finished. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/constraint.hpp"
#include "engine/structure/grammar.hpp"

namespace weir::engine::structure {

using place_id = std::uint32_t;
inline constexpr place_id k_dead = 0xFFFFFFFF;

class automaton final {
 public:
  // REQUIRES: the grammar outlives the automaton; it has `marker_count` markers.
  automaton(const grammar& rules, std::size_t marker_count);

  place_id start() const noexcept { return 0; }

  // Where `input` leads; k_dead where it is not allowed.
  place_id step(place_id from, symbol input) {
    const place_id known = places_[from].next[class_of_[input]];
    return known != k_unknown ? known : find_step(from, input);
  }

  bool is_complete(place_id at) const noexcept { return places_[at].complete; }
  bool goes_on(place_id at) const noexcept { return !places_[at].configs.empty(); }
  // `count` characters that need no escape in a string may follow, whichever they are.
  bool takes_plain(place_id at, std::uint32_t count) const;
  // There are too many places at once to go on; no text gets here but by a grammar made for it.
  bool overloaded() const noexcept { return overloaded_; }

  const std::shared_ptr<const token_mask>& mask(place_id at) const noexcept { return places_[at].mask; }
  void keep_mask(place_id at, std::shared_ptr<const token_mask> mask);

  // The place of another automaton of the same grammar, as one of this.
  place_id adopt(const automaton& other, place_id at);

  std::size_t bytes() const noexcept { return bytes_; }
  // What finding transitions has cost so far, in places visited.
  std::size_t work() const noexcept { return work_; }

 private:
  static constexpr place_id k_unknown = 0xFFFFFFFE;
  using node_id = std::uint32_t;  // 0: nothing is open

  struct config {
    state_id state;
    node_id node;
    friend auto operator<=>(const config&, const config&) = default;
  };
  // A call that goes on at its site's `to` once the rule above ends, the `count`-th repetition being read.
  struct open_call {
    std::uint32_t site;
    std::uint32_t count;
    node_id parent;
    friend auto operator<=>(const open_call&, const open_call&) = default;
  };
  struct node {
    std::vector<open_call> calls;  // sorted, unique
    std::uint32_t depth;           // of the least deep one
  };
  struct place {
    std::vector<config> configs;  // sorted, unique; each can read something
    std::vector<place_id> next;   // by class of symbols
    bool complete = false;
    std::shared_ptr<const token_mask> mask;
  };

  void classify(std::size_t symbol_count);
  place_id find_step(place_id from, symbol input);
  void enter(config at);
  void leave(node_id node);
  void open(std::uint32_t site, std::uint32_t count, node_id parent);
  void follow();
  place_id close();
  node_id intern_node(std::vector<open_call> calls);
  place_id intern_place(std::vector<config> configs, bool complete);
  bool reaches_end(state_id state, node_id node) const noexcept;

  const grammar& grammar_;
  std::vector<std::uint16_t> class_of_;  // by symbol; those of one class lead to the same places everywhere
  std::size_t class_count_ = 0;
  std::vector<node> nodes_;
  std::vector<place> places_;
  std::unordered_multimap<std::uint64_t, node_id> node_index_;
  std::unordered_multimap<std::uint64_t, place_id> place_index_;
  std::size_t bytes_ = 0;
  bool overloaded_ = false;

  // Of the step in work.
  std::vector<config> found_;                              // worklist, then result
  std::size_t followed_ = 0;                               // of found_
  std::unordered_map<std::uint64_t, std::uint64_t> seen_;  // config -> the step that met it
  std::uint64_t round_ = 0;
  std::size_t work_ = 0;
  std::vector<std::pair<std::uint32_t, rule_id>> waiting_;  // heap of ranks whose rules are to be entered
  std::vector<std::vector<open_call>> opened_;              // by rule
  bool complete_ = false;
};

}  // namespace weir::engine::structure
