#include "engine/structure/pattern.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "engine/structure/limits.hpp"
#include "engine/structure/pattern_syntax.hpp"
#include "engine/text/utf8.hpp"

namespace weir::engine::structure {

namespace {

constexpr std::uint32_t k_nowhere = 0xFFFFFFFF;
constexpr std::size_t k_lookup_steps = 16;  // what finding a set costs, in the time of visiting one node

enum class step : std::uint8_t { chars, fork, at_begin, at_end, match };

struct node {
  step kind;
  std::uint32_t set = 0;  // chars: index of the tree's node that has it
  std::uint32_t next = k_nowhere;
  std::uint32_t other = k_nowhere;  // fork
};

// A tree as a nondeterministic automaton, built from its end: each part gets where it continues.
class node_writer final {
 public:
  explicit node_writer(const pattern_tree& tree) : tree_(tree) {}

  std::uint32_t write(std::uint32_t part, std::uint32_t next) {
    const pattern_node& p = tree_.nodes[part];
    switch (p.op) {
      case pattern_op::chars:
        return add({step::chars, part, next});
      case pattern_op::at_begin:
        return add({step::at_begin, 0, next});
      case pattern_op::at_end:
        return add({step::at_end, 0, next});
      case pattern_op::sequence:
        for (auto it = p.parts.rbegin(); it != p.parts.rend(); ++it) next = write(*it, next);
        return next;
      case pattern_op::choice: {
        std::uint32_t first = write(p.parts[0], next);
        for (std::size_t i = 1; i < p.parts.size(); ++i)
          first = add({step::fork, 0, write(p.parts[i], next), first});
        return first;
      }
      case pattern_op::repeat:
        break;
    }
    return write_repeat(p, next);
  }

  std::uint32_t add(node n) {
    if (nodes.size() < k_pattern_nodes_max) {
      nodes.push_back(n);
    } else {
      full = true;
    }
    return static_cast<std::uint32_t>(nodes.size() - 1);
  }

  std::vector<node> nodes;
  bool full = false;

 private:
  std::uint32_t write_repeat(const pattern_node& p, std::uint32_t next) {
    if (p.max < 0) {
      const std::uint32_t loop = add({step::fork, 0, k_nowhere, next});
      const std::uint32_t body = write(p.parts[0], loop);
      nodes[loop].next = body;
      next = loop;
    }
    for (std::int64_t i = p.min; i < p.max && !full; ++i) {
      next = add({step::fork, 0, write(p.parts[0], next), next});
    }
    for (std::int64_t i = 0; i < p.min && !full; ++i) next = write(p.parts[0], next);
    return next;
  }

  const pattern_tree& tree_;
};

// Characters that no set of a pattern tells apart.
class classes final {
 public:
  explicit classes(const pattern_tree& tree) {
    starts_.push_back(0);
    for (const auto& n : tree.nodes) {
      for (const auto& range : n.set) {
        starts_.push_back(range.low);
        if (range.high < text::k_code_point_max) starts_.push_back(range.high + 1);
      }
    }
    std::sort(starts_.begin(), starts_.end());
    starts_.erase(std::unique(starts_.begin(), starts_.end()), starts_.end());
  }

  std::size_t size() const { return starts_.size(); }
  std::size_t of(char32_t c) const {
    return static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), c) - starts_.begin()) -
           1;
  }
  char32_t low(std::size_t i) const { return starts_[i]; }
  char32_t high(std::size_t i) const {
    return i + 1 < starts_.size() ? starts_[i + 1] - 1 : text::k_code_point_max;
  }

 private:
  std::vector<char32_t> starts_;
};

class determiniser final {
 public:
  determiniser(const pattern_tree& tree, const std::vector<node>& nodes, std::uint32_t start)
      : tree_(tree), nodes_(nodes), start_(start), classes_(tree), seen_(nodes.size()) {}

  result<char_automaton> run() {
    if (classes_.size() > k_pattern_classes_max)
      return fail(errc::bad_request, "tells too many characters apart");
    // State 0 alone may still be at the begin; a pattern may also start behind any character.
    number(closure({start_}, true, false));
    for (std::size_t i = 0; i < sets_.size(); ++i) {
      if (i >= k_string_states_max || steps_ > k_pattern_steps_max) {
        return fail(errc::bad_request, "needs an automaton that is too large");
      }
      out_.states.push_back(expand(sets_[i], i == 0));
    }
    return std::move(out_);
  }

 private:
  using node_set = std::vector<std::uint32_t>;

  std::uint32_t number(node_set set) {
    const auto [at, fresh] = known_.try_emplace(std::move(set), static_cast<std::uint32_t>(sets_.size()));
    if (fresh) sets_.push_back(at->first);
    return at->second;
  }

  // The state that characters lead to which lead to `set`.
  std::uint32_t follow(node_set set) {
    std::sort(set.begin(), set.end());
    set.erase(std::unique(set.begin(), set.end()), set.end());
    steps_ += k_lookup_steps + set.size();
    const auto at = followed_.find(set);
    if (at != followed_.end()) return at->second;
    const std::uint32_t to = number(closure(set, false, false));
    followed_.emplace(std::move(set), to);
    return to;
  }

  node_set closure(node_set set, bool begin, bool end) {
    ++round_;
    for (const auto n : set) seen_[n] = round_;
    const auto visit = [&](std::uint32_t n) {
      if (std::exchange(seen_[n], round_) != round_) set.push_back(n);
    };
    for (std::size_t i = 0; i < set.size(); ++i) {
      const node& n = nodes_[set[i]];
      ++steps_;
      const bool goes_on =
          n.kind == step::fork || (n.kind == step::at_begin && begin) || (n.kind == step::at_end && end);
      if (goes_on) visit(n.next);
      if (n.kind == step::fork) visit(n.other);
    }
    std::sort(set.begin(), set.end());
    return set;
  }

  bool matches(const node_set& set) const {
    return std::any_of(set.begin(), set.end(), [&](auto n) { return nodes_[n].kind == step::match; });
  }

  char_state expand(const node_set set, bool begin) {
    const auto self = static_cast<std::uint32_t>(out_.states.size());
    if (matches(set)) return {true, true, {{0, text::k_code_point_max, self}}};
    char_state out{matches(closure(set, begin, true)), false, {}};
    std::vector<node_set> targets(classes_.size(), node_set{start_});
    for (const auto n : set) {
      if (nodes_[n].kind != step::chars) continue;
      for (const auto& range : tree_.nodes[nodes_[n].set].set) {
        for (std::size_t c = classes_.of(range.low); c < classes_.size() && classes_.low(c) <= range.high;
             ++c) {
          targets[c].push_back(nodes_[n].next);
          ++steps_;
        }
      }
    }
    for (std::size_t c = 0; c < targets.size() && steps_ <= k_pattern_steps_max; ++c) {
      const std::uint32_t to = follow(std::move(targets[c]));
      if (!out.ranges.empty() && out.ranges.back().to == to) {
        out.ranges.back().high = classes_.high(c);
      } else {
        out.ranges.push_back({classes_.low(c), classes_.high(c), to});
      }
    }
    return out;
  }

  const pattern_tree& tree_;
  const std::vector<node>& nodes_;
  const std::uint32_t start_;
  const classes classes_;
  std::vector<std::uint64_t> seen_;  // by node: the last round that met it
  std::uint64_t round_ = 0;
  std::map<node_set, std::uint32_t> known_;
  std::map<node_set, std::uint32_t> followed_;  // before their closure
  std::vector<node_set> sets_;
  std::size_t steps_ = 0;
  char_automaton out_;
};

}  // namespace

result<char_automaton> compile_pattern(std::string_view pattern) {
  const auto tree = parse_pattern(pattern);
  if (!tree) return std::unexpected(tree.error());
  node_writer writer(*tree);
  const std::uint32_t match = writer.add({step::match});
  const std::uint32_t start = writer.write(tree->root, match);
  if (writer.full) return fail(errc::bad_request, "repeats too much");
  return determiniser(*tree, writer.nodes, start).run();
}

}  // namespace weir::engine::structure
