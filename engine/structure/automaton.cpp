#include "engine/structure/automaton.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace weir::engine::structure {

namespace {

constexpr std::size_t k_configs_max = 4096;  // of one place
constexpr std::size_t k_step_work = 8;       // what a transition costs besides

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) noexcept {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 29);
}

std::uint64_t both(std::uint32_t high, std::uint32_t low) noexcept {
  return std::uint64_t{high} << 32 | low;
}

}  // namespace

automaton::automaton(const grammar& rules, std::size_t marker_count)
    : grammar_(rules), opened_(rules.rules.size()) {
  classify(k_first_marker + marker_count);
  nodes_.push_back({{}, 0});
  ++round_;
  enter({grammar_.rules[grammar_.root].start, 0});
  close();
}

void automaton::classify(std::size_t symbol_count) {
  std::vector<bool> begins(symbol_count + 1);
  for (const auto& edge : grammar_.edges) begins[edge.low] = begins[edge.high + 1U] = true;
  class_of_.resize(symbol_count);
  for (std::size_t s = 0; s < symbol_count; ++s) {
    if (s > 0 && begins[s]) ++class_count_;
    class_of_[s] = static_cast<std::uint16_t>(class_count_);
  }
  ++class_count_;
}

// Whether the depth that is left is enough to end the rule here.
bool automaton::reaches_end(state_id state, node_id n) const noexcept {
  const std::uint32_t needed = grammar_.states[state].depth_needed;
  return needed != k_never && nodes_[n].depth + needed <= k_call_depth_max;
}

void automaton::enter(config at) {
  if (!reaches_end(at.state, at.node)) return;
  auto& met = seen_[both(at.state, at.node)];
  if (std::exchange(met, round_) == round_) return;
  found_.push_back(at);
}

// The rule above `n` ended.
void automaton::leave(node_id n) {
  if (n == 0) complete_ = true;
  for (std::size_t i = 0; i < nodes_[n].calls.size(); ++i) {
    const open_call call = nodes_[n].calls[i];
    const call_site& site = grammar_.calls[call.site];
    const bool bounded = site.max != k_no_limit;
    // Without an upper limit the count matters up to the lower one alone.
    const std::uint32_t count = bounded ? call.count + 1 : std::min(call.count + 1, site.min);
    if (count >= site.min) enter({site.to, call.parent});
    if (!bounded || count < site.max) open(call.site, count, call.parent);
  }
}

void automaton::open(std::uint32_t site, std::uint32_t count, node_id parent) {
  const rule_id rule = grammar_.calls[site].rule;
  const state_id start = grammar_.rules[rule].start;
  if (nodes_[parent].depth + 1 + grammar_.states[start].depth_needed > k_call_depth_max) return;
  if (!reaches_end(grammar_.calls[site].to, parent)) return;
  auto& calls = opened_[rule];
  if (calls.empty()) {
    waiting_.emplace_back(grammar_.rules[rule].rank, rule);
    std::push_heap(waiting_.begin(), waiting_.end(), std::greater<>());
  }
  calls.push_back({site, count, parent});
}

void automaton::follow() {
  for (; followed_ < found_.size(); ++followed_) {
    const config at = found_[followed_];
    if (grammar_.states[at.state].ends_rule) leave(at.node);
    for (const std::uint32_t site : grammar_.calls_of(at.state)) open(site, 0, at.node);
  }
}

// Everything that can be reached from found_ without input: ends of rules first, then rules in the order in
// which they may call each other, so that all calls of one are known when it is entered.
place_id automaton::close() {
  follow();
  while (!waiting_.empty() && found_.size() <= k_configs_max) {
    std::pop_heap(waiting_.begin(), waiting_.end(), std::greater<>());
    const rule_id rule = waiting_.back().second;
    waiting_.pop_back();
    auto calls = std::exchange(opened_[rule], {});
    std::sort(calls.begin(), calls.end());
    calls.erase(std::unique(calls.begin(), calls.end()), calls.end());
    enter({grammar_.rules[rule].start, intern_node(std::move(calls))});
    follow();
  }
  for (const auto& [rank, rule] : waiting_) opened_[rule].clear();
  waiting_.clear();
  overloaded_ = overloaded_ || found_.size() > k_configs_max;
  work_ += found_.size();
  std::erase_if(found_, [&](const config& at) { return grammar_.edges_of(at.state).empty(); });
  std::sort(found_.begin(), found_.end());
  followed_ = 0;
  const bool complete = std::exchange(complete_, false);
  auto configs = std::exchange(found_, {});
  if (configs.empty() && !complete) return k_dead;
  return intern_place(std::move(configs), complete);
}

place_id automaton::find_step(place_id from, symbol input) {
  ++round_;
  work_ += k_step_work + places_[from].configs.size();
  if (seen_.size() > 4 * k_configs_max) seen_.clear();
  for (std::size_t i = 0; i < places_[from].configs.size(); ++i) {
    const config at = places_[from].configs[i];
    for (const auto& edge : grammar_.edges_of(at.state)) {
      if (input >= edge.low && input <= edge.high) enter({edge.to, at.node});
    }
  }
  const place_id to = close();
  places_[from].next[class_of_[input]] = to;
  return to;
}

automaton::node_id automaton::intern_node(std::vector<open_call> calls) {
  std::uint64_t hash = calls.size();
  std::uint32_t depth = k_never;
  for (const auto& call : calls) {
    hash = mix(mix(hash, both(call.site, call.count)), call.parent);
    depth = std::min(depth, nodes_[call.parent].depth + 1);
  }
  const auto [first, last] = node_index_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (nodes_[it->second].calls == calls) return it->second;
  }
  const auto id = static_cast<node_id>(nodes_.size());
  bytes_ += sizeof(node) + calls.size() * sizeof(open_call) + 48;
  nodes_.push_back({std::move(calls), depth});
  node_index_.emplace(hash, id);
  return id;
}

place_id automaton::intern_place(std::vector<config> configs, bool complete) {
  std::uint64_t hash = complete ? 1 : 0;
  for (const auto& at : configs) hash = mix(hash, both(at.state, at.node));
  const auto [first, last] = place_index_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const place& other = places_[it->second];
    if (other.complete == complete && other.configs == configs) return it->second;
  }
  const auto id = static_cast<place_id>(places_.size());
  bytes_ += sizeof(place) + configs.size() * sizeof(config) + class_count_ * sizeof(place_id) + 48;
  places_.push_back({std::move(configs), std::vector<place_id>(class_count_, k_unknown), complete, nullptr});
  place_index_.emplace(hash, id);
  return id;
}

bool automaton::takes_plain(place_id at, std::uint32_t count) const {
  return std::any_of(places_[at].configs.begin(), places_[at].configs.end(), [&](const config& c) {
    if (grammar_.states[c.state].plain_text) return true;
    const auto& calls = nodes_[c.node].calls;
    // A string of counted characters, at the begin of one.
    if (calls.empty()) return false;
    const grammar_rule& rule = grammar_.rules[grammar_.calls[calls[0].site].rule];
    return rule.plain_char && rule.start == c.state &&
           std::any_of(calls.begin(), calls.end(), [&](const open_call& call) {
             const std::uint32_t max = grammar_.calls[call.site].max;
             return max == k_no_limit || max - call.count >= count;
           });
  });
}

void automaton::keep_mask(place_id at, std::shared_ptr<const token_mask> mask) {
  bytes_ += mask->size() * sizeof(std::uint64_t) + sizeof(token_mask);
  places_[at].mask = std::move(mask);
}

place_id automaton::adopt(const automaton& other, place_id at) {
  // Parents have lower numbers than the nodes above them, so one pass in their order copies all.
  std::vector<bool> needed(other.nodes_.size());
  const place& from = other.places_[at];
  for (const auto& c : from.configs) needed[c.node] = true;
  for (std::size_t n = other.nodes_.size(); n-- > 1;) {
    if (!needed[n]) continue;
    for (const auto& call : other.nodes_[n].calls) needed[call.parent] = true;
  }
  std::vector<node_id> mine(other.nodes_.size());
  for (std::size_t n = 1; n < needed.size(); ++n) {
    if (!needed[n]) continue;
    auto calls = other.nodes_[n].calls;
    for (auto& call : calls) call.parent = mine[call.parent];
    std::sort(calls.begin(), calls.end());
    mine[n] = intern_node(std::move(calls));
  }
  auto configs = from.configs;
  for (auto& c : configs) c.node = mine[c.node];
  std::sort(configs.begin(), configs.end());
  return intern_place(std::move(configs), from.complete);
}

}  // namespace weir::engine::structure
