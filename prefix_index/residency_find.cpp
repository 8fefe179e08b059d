// The lookup: a search over the chain for all replicas at once, then holes, then checkpoints.
#include <algorithm>
#include <cassert>
#include <limits>

#include "prefix_index/residency_impl.hpp"

namespace weir::prefix_index {

namespace {

constexpr std::size_t k_batch_probes = 64;          // fetched together, so that their cache misses overlap
constexpr std::size_t k_round_probes = 16;          // positions per round, while few intervals are left
constexpr std::uint32_t k_interval_probes_max = 7;  // of them in one interval: three bits at once
constexpr std::size_t k_short_chain_units = 64;
constexpr std::size_t k_inline_replicas = 16;  // beyond that a key's entries span cache lines
constexpr int k_hole_rounds_max = 3;
constexpr std::size_t k_seeded_probes = 4;
constexpr std::uint32_t k_frontier_probes = 1;  // keys just below where a replica's pages seem to end
constexpr std::uint32_t k_checkpoint_probes_max = 4096;  // candidates; deeper ones come first
constexpr std::uint16_t k_not_asked = std::numeric_limits<std::uint16_t>::max();

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
  x = (x ^ x >> 27) * 0x94D049BB133111EB;
  return x ^ x >> 31;
}

// Pages are known up to `low` units and known to be missing at `high` (counts of units, high > low).
struct interval {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  friend auto operator<=>(const interval&, const interval&) = default;
};

// What decides over an asked replica's entries, as it was when the lookup began.
struct asked_replica {
  std::uint64_t horizon = 0;
  std::uint64_t epoch = 0;
  evidence pages = evidence::simulated;
  evidence checkpoints = evidence::simulated;
};

struct scratch {
  entry_copy entries;
  std::array<asked_replica, k_replicas_max> asked;
  std::array<std::uint16_t, k_replicas_max> slot_of;
  std::array<interval, k_replicas_max + 1> known;  // the last one: whether the key was ever seen
  std::array<bool, k_replicas_max + 1> present;
  std::array<std::uint64_t, k_replicas_max + 1> word;
  std::vector<std::uint32_t> positions;
  std::vector<interval> open;
  scratch() { slot_of.fill(k_not_asked); }
};

// One find(); positions are counts: position c asks for unit c - 1.
class chain_search final {
 public:
  chain_search(const residency_index::impl& index, std::span<const block_key> chain,
               std::span<const replica_id> replicas, std::span<holding> out, scratch& s)
      : index_(index), chain_(chain), replicas_(replicas), out_(out), s_(s) {
    for (std::size_t i = 0; i < replicas_.size(); ++i) ask(i);
    std::fill_n(s_.known.begin(), replicas_.size() + 1, interval{0, count() + 1});
    std::fill(out_.begin(), out_.end(), holding{});
  }
  ~chain_search() {
    for (const auto replica : replicas_) s_.slot_of[replica] = k_not_asked;
  }

  chain_facts run() {
    if (count() != 0) {
      gallop();
      search();
      for (int round = 0; round < k_hole_rounds_max && check_holes(); ++round) search();
      find_checkpoints();
    }
    return {.seen_units = count() == 0 ? 0 : s_.known[replicas_.size()].low, .probes = probes_};
  }

 private:
  std::uint32_t count() const { return static_cast<std::uint32_t>(chain_.size()); }

  void ask(std::size_t i) {
    const auto& state = index_.states[replicas_[i]];
    s_.slot_of[replicas_[i]] = static_cast<std::uint16_t>(i);
    s_.asked[i] = {.horizon = state.horizon.load(std::memory_order_acquire),
                   .epoch = state.epoch.load(std::memory_order_acquire) & k_epoch_mask,
                   .pages = static_cast<evidence>(state.pages.load(std::memory_order_acquire)),
                   .checkpoints = static_cast<evidence>(state.checkpoints.load(std::memory_order_acquire))};
  }

  template <typename Visit>
  void read_all(std::span<const std::uint32_t> positions, Visit&& visit) {
    for (std::size_t i = 0; i < positions.size(); ++i) {
      if (i % k_batch_probes == 0) {
        const auto batch = positions.subspan(i, std::min(k_batch_probes, positions.size() - i));
        if (chain_.size() > k_short_chain_units) {
          for (const auto c : batch) index_.table.prefetch_slot(chain_[c - 1]);
          for (const auto c : batch) index_.table.prefetch_record(chain_[c - 1]);
        }
        if (replicas_.size() > k_inline_replicas) {
          for (const auto c : batch) index_.table.prefetch_chunk(chain_[c - 1]);
        }
      }
      ++probes_;
      const bool seen = index_.table.read(chain_[positions[i] - 1], s_.entries);
      if (!seen) s_.entries.count = 0;
      if (!visit(positions[i], seen)) return;
    }
  }

  // Calls visit(i, word) for each entry that counts as pages (or as a checkpoint) of an asked replica i.
  template <typename Visit>
  void for_entries(bool checkpoints, Visit&& visit) {
    const auto model = checkpoints ? entry_kind::model_checkpoint : entry_kind::model_pages;
    const auto event = checkpoints ? entry_kind::event_checkpoint : entry_kind::event_pages;
    for (std::uint32_t e = 0; e < s_.entries.count; ++e) {
      const auto word = s_.entries.words[e];
      const auto kind = kind_of(word);
      if (kind != model && kind != event) continue;
      const auto i = s_.slot_of[replica_field::get(word)];
      if (i == k_not_asked || doubt_field::get(word) != 0) continue;
      const auto& asked = s_.asked[i];
      const auto counted = checkpoints ? asked.checkpoints : asked.pages;
      const bool live = kind == model ? counted == evidence::simulated &&
                                            age_order_of(word, s_.entries.depth) > asked.horizon
                                      : counted == evidence::events && epoch_field::get(word) == asked.epoch;
      if (live) visit(i, word);
    }
  }

  void probe(std::span<const std::uint32_t> positions) {
    const auto replica_count = replicas_.size();
    read_all(positions, [&](std::uint32_t c, bool seen) {
      std::fill_n(s_.present.begin(), replica_count, false);
      s_.present[replica_count] = seen;
      for_entries(false, [&](std::uint16_t i, std::uint64_t word) {
        s_.present[i] = true;
        s_.word[i] = word;
      });
      for (std::size_t i = 0; i <= replica_count; ++i) {
        auto& known = s_.known[i];
        if (c >= known.high) continue;
        if (!s_.present[i]) {
          known.high = c;
          if (known.low >= c) known.low = 0;  // a hole: what is above it is searched anew
        } else if (c > known.low) {
          known.low = c;
          if (i < replica_count) {
            out_[i].pages_from = confidence_of(s_.word[i]);
            out_[i].pages_medium = medium_of(s_.word[i]);
          }
        }
      }
      return true;
    });
  }

  // A short prompt's keys are fetched all at once: the search would wait for them round by round, and whoever
  // asks mostly writes to them next.
  void gallop() {
    if (chain_.size() <= k_short_chain_units) {
      for (const auto& key : chain_) index_.table.prefetch_slot(key);
      for (const auto& key : chain_) index_.table.prefetch_record(key);
    }
    s_.positions.clear();
    for (std::uint32_t c = 1; c < count(); c *= 2) s_.positions.push_back(c);
    s_.positions.push_back(count());
    probe(s_.positions);
  }

  void search() {
    for (;;) {
      s_.open.clear();
      for (std::size_t i = 0; i <= replicas_.size(); ++i) {
        const auto& known = s_.known[i];
        if (known.high - known.low > 1) s_.open.push_back(known);
      }
      if (s_.open.empty()) return;
      std::sort(s_.open.begin(), s_.open.end());
      s_.open.erase(std::unique(s_.open.begin(), s_.open.end()), s_.open.end());
      const auto each =
          std::clamp(static_cast<std::uint32_t>(k_round_probes / s_.open.size()), 1U, k_interval_probes_max);
      s_.positions.clear();
      for (const auto& gap : s_.open) {
        const auto inside = gap.high - gap.low - 1;
        const auto probes = std::min(each, inside);
        for (std::uint32_t k = 1; k <= probes; ++k) {
          s_.positions.push_back(gap.low +
                                 static_cast<std::uint32_t>((std::uint64_t{inside} + 1) * k / (probes + 1)));
        }
      }
      probe(s_.positions);
    }
  }

  // Returns whether anybody's match became shorter.
  bool check_holes() {
    s_.positions.clear();
    std::uint32_t deepest = 0;
    for (std::size_t i = 0; i < replicas_.size(); ++i) {
      const auto pages = s_.known[i].low;
      deepest = std::max(deepest, pages);
      for (std::uint32_t k = 1; k <= k_frontier_probes && k < pages; ++k) s_.positions.push_back(pages - k);
    }
    if (deepest < 2) return false;
    auto random = mix(index_.seed ^ chain_.back().low);
    for (std::size_t k = 0; k < k_seeded_probes; ++k) {
      s_.positions.push_back(1 + static_cast<std::uint32_t>(random % (deepest - 1)));
      random = mix(random + k);
    }
    std::sort(s_.positions.begin(), s_.positions.end());
    s_.positions.erase(std::unique(s_.positions.begin(), s_.positions.end()), s_.positions.end());
    std::uint64_t before = 0;
    std::uint64_t after = 0;
    for (std::size_t i = 0; i < replicas_.size(); ++i) before += s_.known[i].high;
    probe(s_.positions);
    for (std::size_t i = 0; i < replicas_.size(); ++i) after += s_.known[i].high;
    return after != before;
  }

  // ---- checkpoints

  void find_checkpoints() {
    for (std::size_t i = 0; i < replicas_.size(); ++i) {
      auto& o = out_[i];
      o.pages = s_.known[i].low;
      if (o.pages == 0) {
        o = holding{};
        continue;
      }
      if (s_.asked[i].checkpoints != evidence::implied) continue;
      o.checkpoint = o.pages;
      o.checkpoint_from = o.pages_from;
      o.checkpoint_medium = o.pages_medium;
    }
    auto limit = deepest_pending();
    for (auto group = (limit + k_far_units - 1) / k_far_units; group-- > 0 && limit != 0;) {
      limit = std::min(limit, (group + 1) * k_far_units);
      if (const auto bits = summary(group * k_far_units, entry_kind::far_summary); bits != 0) {
        search_far(group * k_far_units, bits);
      }
      limit = deepest_pending();
    }
  }

  // The most units that a replica without its checkpoint found holds; 0: all are found.
  std::uint32_t deepest_pending() const {
    std::uint32_t deepest = 0;
    if (candidates_ >= k_checkpoint_probes_max) return 0;
    for (const auto& o : out_) {
      if (o.checkpoint == 0) deepest = std::max(deepest, o.pages);
    }
    return deepest;
  }

  std::uint64_t summary(std::uint32_t unit, entry_kind kind) {
    ++probes_;
    if (!index_.table.read(chain_[unit], s_.entries)) return 0;
    for (std::uint32_t e = 0; e < s_.entries.count; ++e) {
      if (kind_of(s_.entries.words[e]) == kind) return summary_field::get(s_.entries.words[e]);
    }
    return 0;
  }

  void search_far(std::uint32_t first, std::uint64_t far_bits) {
    for (auto near = k_far_units / k_near_units; near-- > 0;) {
      const auto unit = first + near * k_near_units;
      if ((far_bits >> near & 1) != 0 && unit < count()) index_.table.prefetch_slot(chain_[unit]);
    }
    for (auto near = k_far_units / k_near_units; near-- > 0;) {
      const auto unit = first + near * k_near_units;
      const auto limit = deepest_pending();
      if (limit == 0) return;
      if ((far_bits >> near & 1) == 0 || unit >= limit) continue;
      if (const auto bits = summary(unit, entry_kind::near_summary); bits != 0)
        search_near(unit, bits, limit);
    }
  }

  void search_near(std::uint32_t first, std::uint64_t bits, std::uint32_t limit) {
    std::array<std::uint32_t, k_near_units> candidates{};
    std::size_t found = 0;
    for (auto k = k_near_units; k-- > 0;) {
      if ((bits >> k & 1) != 0 && first + k < limit) candidates[found++] = first + k + 1;
    }
    read_all(std::span(candidates).first(found), [&](std::uint32_t c, bool) {
      ++candidates_;
      bool changed = false;
      for_entries(true, [&](std::uint16_t i, std::uint64_t word) {
        auto& o = out_[i];
        if (o.checkpoint != 0 || c > o.pages) return;
        o.checkpoint = c;
        o.checkpoint_from = confidence_of(word);
        o.checkpoint_medium = medium_of(word);
        changed = true;
      });
      return !changed || deepest_pending() >= first;
    });
  }

  const residency_index::impl& index_;
  std::span<const block_key> chain_;
  std::span<const replica_id> replicas_;
  std::span<holding> out_;
  scratch& s_;
  std::uint32_t probes_ = 0;
  std::uint32_t candidates_ = 0;
};

}  // namespace

chain_facts residency_index::find(std::span<const block_key> chain, std::span<const replica_id> replicas,
                                  std::span<holding> out) const {
  assert(out.size() == replicas.size() && replicas.size() <= k_replicas_max);
  thread_local scratch s;
  return chain_search(*impl_, chain.first(std::min(chain.size(), k_chain_units_max)), replicas, out, s).run();
}

}  // namespace weir::prefix_index
