#include "engine/structure/char_automaton.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/structure/grammar.hpp"
#include "engine/text/utf8.hpp"

namespace weir::engine::structure {

namespace {

constexpr char32_t k_last = text::k_code_point_max;

std::unexpected<error> too_large() {
  return fail(errc::bad_request,
              "needs a string automaton of more than " + std::to_string(k_string_states_max) + " states");
}

char_state everything(std::uint32_t self) {
  return {true, true, {{0, k_last, self}}};
}

// Numbers the states of a product as they are met.
template <class Key>
class numbering final {
 public:
  std::uint32_t of(const Key& key) {
    const auto [at, fresh] = known_.try_emplace(key, static_cast<std::uint32_t>(keys_.size()));
    if (fresh) keys_.push_back(key);
    return at->second;
  }
  std::size_t size() const { return keys_.size(); }
  Key at(std::size_t i) const { return keys_[i]; }

 private:
  std::map<Key, std::uint32_t> known_;
  std::vector<Key> keys_;
};

void merge_neighbours(std::vector<char_range>& ranges) {
  std::vector<char_range> out;
  for (const auto& range : ranges) {
    if (!out.empty() && out.back().to == range.to && out.back().high + 1 == range.low) {
      out.back().high = range.high;
    } else {
      out.push_back(range);
    }
  }
  ranges = std::move(out);
}

}  // namespace

bool char_automaton::accepts(std::string_view bytes) const {
  std::uint32_t state = 0;
  while (!bytes.empty()) {
    const auto step = text::next_char(bytes);
    if (step.status != text::utf8_status::valid) return false;
    bytes.remove_prefix(step.size);
    const auto& ranges = states[state].ranges;
    const auto range = std::find_if(ranges.begin(), ranges.end(), [&](const char_range& r) {
      return step.code_point >= r.low && step.code_point <= r.high;
    });
    if (range == ranges.end()) return false;
    state = range->to;
  }
  return states[state].accepts;
}

char_automaton any_string() {
  return {{everything(0)}};
}

result<char_automaton> all_but(std::span<const std::string> names) {
  char_automaton out;
  std::vector<std::map<char32_t, std::uint32_t>> children(1);
  std::vector<bool> is_name(1);
  for (std::string_view name : names) {
    std::uint32_t at = 0;
    while (!name.empty()) {
      const auto step = text::next_char(name);
      if (step.status != text::utf8_status::valid) return fail(errc::bad_request, "a name is no UTF-8");
      name.remove_prefix(step.size);
      const auto [child, fresh] =
          children[at].try_emplace(step.code_point, static_cast<std::uint32_t>(children.size()));
      at = child->second;
      if (!fresh) continue;
      if (children.size() >= k_string_states_max) return too_large();
      children.emplace_back();
      is_name.push_back(false);
    }
    is_name[at] = true;
  }
  const auto other = static_cast<std::uint32_t>(children.size());
  for (std::size_t s = 0; s < children.size(); ++s) {
    char_state state{!is_name[s], false, {}};
    char32_t from = 0;
    for (const auto& [code_point, child] : children[s]) {
      if (code_point > from) state.ranges.push_back({from, code_point - 1, other});
      state.ranges.push_back({code_point, code_point, child});
      from = code_point + 1;
    }
    if (from <= k_last) state.ranges.push_back({from, k_last, other});
    out.states.push_back(std::move(state));
  }
  out.states.push_back(everything(other));
  return out;
}

result<char_automaton> both(const char_automaton& a, const char_automaton& b) {
  numbering<std::pair<std::uint32_t, std::uint32_t>> pairs;
  char_automaton out;
  pairs.of({0, 0});
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (i >= k_string_states_max) return too_large();
    const auto [left, right] = pairs.at(i);
    const char_state& l = a.states[left];
    const char_state& r = b.states[right];
    char_state state{l.accepts && r.accepts, l.everything && r.everything, {}};
    auto x = l.ranges.begin();
    auto y = r.ranges.begin();
    while (x != l.ranges.end() && y != r.ranges.end()) {
      const char32_t low = std::max(x->low, y->low);
      const char32_t high = std::min(x->high, y->high);
      if (low <= high) state.ranges.push_back({low, high, pairs.of({x->to, y->to})});
      if (x->high == high) {
        ++x;
      } else if (y->high == high) {
        ++y;
      } else if (x->high < y->high) {
        ++x;
      } else {
        ++y;
      }
    }
    merge_neighbours(state.ranges);
    out.states.push_back(std::move(state));
  }
  return out;
}

result<char_automaton> with_length(const char_automaton& a, std::uint32_t min, std::uint32_t max) {
  // Behind the minimum, where there is no maximum, the count does not matter.
  const std::uint32_t last = max == k_no_limit ? min : max;
  numbering<std::pair<std::uint32_t, std::uint32_t>> pairs;
  char_automaton out;
  pairs.of({0, 0});
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (i >= k_string_states_max) return too_large();
    const auto [state, count] = pairs.at(i);
    const char_state& from = a.states[state];
    char_state to{from.accepts && count >= min, from.everything && count >= min && max == k_no_limit, {}};
    if (count < last || max == k_no_limit) {
      for (const auto& range : from.ranges) {
        to.ranges.push_back({range.low, range.high, pairs.of({range.to, std::min(count + 1, last)})});
      }
    }
    out.states.push_back(std::move(to));
  }
  return out;
}

}  // namespace weir::engine::structure
