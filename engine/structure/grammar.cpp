#include "engine/structure/grammar.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace weir::engine::structure {

std::size_t grammar::bytes() const noexcept {
  return rules.size() * sizeof(grammar_rule) + states.size() * sizeof(grammar_state) +
         edges.size() * sizeof(symbol_edge) + calls.size() * sizeof(call_site) +
         call_list.size() * sizeof(std::uint32_t);
}

bool grammar_builder::spend(std::size_t steps) {
  if (!ok()) return false;
  steps_ += steps;
  if (steps_ > k_compile_steps_max) fault_ = "takes too long to compile; make it simpler";
  return ok();
}

rule_id grammar_builder::add_rule() {
  if (rules_.size() >= k_rules_max && ok()) {
    fault_ = "has more than " + std::to_string(k_rules_max) + " different parts";
  }
  const state_id start = add_state();
  const state_id end = add_state();
  rules_.push_back({start, end});
  return static_cast<rule_id>(rules_.size() - 1);
}

state_id grammar_builder::add_state() {
  if (states_.size() >= k_states_max) {
    if (ok()) fault_ = "needs more than " + std::to_string(k_states_max) + " states";
    return 0;
  }
  spend(1);
  states_.emplace_back();
  return static_cast<state_id>(states_.size() - 1);
}

void grammar_builder::read(state_id from, symbol low, symbol high, state_id to) {
  if (!spend(1)) return;
  states_[from].edges.push_back({low, high, to});
}

void grammar_builder::skip(state_id from, state_id to) {
  if (!spend(1)) return;
  states_[from].skips.push_back(to);
}

void grammar_builder::call(state_id from, rule_id rule, state_id to, std::uint32_t min, std::uint32_t max) {
  if (!spend(1)) return;
  states_[from].calls.push_back(static_cast<std::uint32_t>(calls_.size()));
  calls_.push_back({rule, min, max, to});
  if (min == 0) skip(from, to);
}

void grammar_builder::text(state_id from, std::string_view bytes, state_id to) {
  for (std::size_t i = 0; i < bytes.size() && ok(); ++i) {
    const state_id next = i + 1 == bytes.size() ? to : add_state();
    read(from, static_cast<unsigned char>(bytes[i]), next);
    from = next;
  }
  if (bytes.empty()) skip(from, to);
}

// Every state gets the edges of all that it can skip to.
void grammar_builder::close_skips(grammar& out) {
  std::vector<std::uint32_t> seen(states_.size(), k_never);
  std::vector<bool> is_end(states_.size());
  for (const auto& rule : rules_) is_end[rule.end] = true;
  std::vector<state_id> reached;
  for (state_id s = 0; s < states_.size() && ok(); ++s) {
    grammar_state state{static_cast<std::uint32_t>(out.edges.size()),
                        static_cast<std::uint32_t>(out.call_list.size())};
    reached.assign(1, s);
    seen[s] = s;
    for (std::size_t i = 0; i < reached.size(); ++i) {
      const state_draft& draft = states_[reached[i]];
      if (!spend(1 + draft.edges.size() + draft.calls.size())) return;
      state.ends_rule = state.ends_rule || is_end[reached[i]];
      state.plain_text = state.plain_text || draft.plain_text;
      out.edges.insert(out.edges.end(), draft.edges.begin(), draft.edges.end());
      out.call_list.insert(out.call_list.end(), draft.calls.begin(), draft.calls.end());
      for (const state_id next : draft.skips) {
        if (std::exchange(seen[next], s) != s) reached.push_back(next);
      }
    }
    if (out.edges.size() + out.call_list.size() > k_edges_max) {
      fault_ = "needs more than " + std::to_string(k_edges_max) + " transitions";
    }
    out.states.push_back(state);
  }
  out.states.push_back(
      {static_cast<std::uint32_t>(out.edges.size()), static_cast<std::uint32_t>(out.call_list.size())});
  out.calls = calls_;
}

// The least depth over all ways to the end of a rule, by rounds of depth: a state joins a round when an edge
// leads to what joined, and a call when its rule's start joined a round before.
void grammar_builder::find_depths(grammar& out) {
  const std::size_t count = out.states.size() - 1;
  std::vector<std::vector<std::pair<state_id, std::uint32_t>>> into(count);  // (state, site or k_never)
  std::vector<std::vector<std::pair<state_id, std::uint32_t>>> callers(out.rules.size());
  for (state_id s = 0; s < count; ++s) {
    for (const auto& edge : out.edges_of(s)) into[edge.to].emplace_back(s, k_never);
    for (const std::uint32_t site : out.calls_of(s)) {
      into[out.calls[site].to].emplace_back(s, site);
      callers[out.calls[site].rule].emplace_back(s, site);
    }
  }
  std::vector<std::vector<rule_id>> starts(count);
  for (rule_id r = 0; r < out.rules.size(); ++r) starts[out.rules[r].start].push_back(r);
  std::vector<state_id> now, next;
  for (state_id s = 0; s < count; ++s) {
    if (out.states[s].ends_rule) now.push_back(s);
  }
  for (std::uint32_t depth = 0; !now.empty() && depth <= k_call_depth_max; ++depth) {
    next.clear();
    for (std::size_t i = 0; i < now.size(); ++i) {
      const state_id s = now[i];
      if (out.states[s].depth_needed != k_never) continue;
      out.states[s].depth_needed = depth;
      for (const auto& [from, site] : into[s]) {
        if (site == k_never) {
          now.push_back(from);
        } else if (const auto needed = out.states[out.rules[out.calls[site].rule].start].depth_needed;
                   needed < depth) {
          now.push_back(from);
        } else if (needed == depth) {
          next.push_back(from);
        }
      }
      for (const rule_id r : starts[s]) {
        for (const auto& [from, site] : callers[r]) {
          if (out.states[out.calls[site].to].depth_needed != k_never) next.push_back(from);
        }
      }
    }
    now.swap(next);
  }
}

void grammar_builder::cut_dead_ends(grammar& out) const {
  grammar cut;
  cut.rules = std::move(out.rules);
  cut.calls = std::move(out.calls);
  const auto alive = [&](state_id s) { return out.states[s].depth_needed != k_never; };
  for (state_id s = 0; s + 1 < out.states.size(); ++s) {
    grammar_state state = out.states[s];
    const auto edges = out.edges_of(s);
    const auto calls = out.calls_of(s);
    state.first_edge = static_cast<std::uint32_t>(cut.edges.size());
    state.first_call = static_cast<std::uint32_t>(cut.call_list.size());
    if (alive(s)) {
      std::copy_if(edges.begin(), edges.end(), std::back_inserter(cut.edges),
                   [&](const symbol_edge& edge) { return alive(edge.to); });
      std::copy_if(calls.begin(), calls.end(), std::back_inserter(cut.call_list), [&](std::uint32_t site) {
        return alive(cut.calls[site].to) && alive(cut.rules[cut.calls[site].rule].start);
      });
    }
    cut.states.push_back(state);
  }
  cut.states.push_back(
      {static_cast<std::uint32_t>(cut.edges.size()), static_cast<std::uint32_t>(cut.call_list.size())});
  out = std::move(cut);
}

// Orders rules so that whoever calls another before reading a symbol comes first. False where there is no
// such order.
bool grammar_builder::rank_rules(grammar& out) const {
  std::vector<std::uint32_t> waits(out.rules.size());
  const auto each_first_call = [&](rule_id r, auto visit) {
    for (const std::uint32_t site : out.calls_of(out.rules[r].start)) visit(out.calls[site].rule);
  };
  for (rule_id r = 0; r < out.rules.size(); ++r) each_first_call(r, [&](rule_id callee) { ++waits[callee]; });
  std::vector<rule_id> order;
  for (rule_id r = 0; r < out.rules.size(); ++r) {
    if (waits[r] == 0) order.push_back(r);
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    out.rules[order[i]].rank = static_cast<std::uint32_t>(i);
    each_first_call(order[i], [&](rule_id callee) {
      if (--waits[callee] == 0) order.push_back(callee);
    });
  }
  return order.size() == out.rules.size();
}

result<grammar> grammar_builder::finish(rule_id root) {
  grammar out;
  if (ok()) close_skips(out);
  if (!ok()) return fail(errc::bad_request, fault_);
  for (const auto& rule : rules_) out.rules.push_back({rule.start, 0, rule.plain_char});
  out.root = root;
  find_depths(out);
  cut_dead_ends(out);
  if (!rank_rules(out)) return fail(errc::bad_request, "refers to itself without anything in between");
  if (out.states[out.rules[root].start].depth_needed == k_never) {
    return fail(errc::bad_request, "allows no value at all, or only values nested too deeply");
  }
  return out;
}

}  // namespace weir::engine::structure
