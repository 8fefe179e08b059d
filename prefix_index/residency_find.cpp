// The lookup: a search over the chain for all replicas at once, then holes, then checkpoints.
#include <algorithm>
#include <cassert>
#include <limits>

#include "prefix_index/residency_impl.hpp"

namespace weir::prefix_index {

namespace {

constexpr std::size_t k_batch_probes = 64;          // fetched together, so that their cache misses overlap
constexpr std::uint32_t k_round_probes = 16;        // positions per round, while few intervals are left
constexpr std::uint32_t k_interval_probes_max = 7;  // of them in one interval: three bits at once
constexpr std::size_t k_short_chain_units = 64;
constexpr std::size_t k_inline_replicas = 16;  // beyond that a key's entries span cache lines
constexpr int k_hole_rounds_max = 3;
constexpr std::size_t k_seeded_probes = 4;
constexpr std::size_t k_few_replicas = 8;       // that a probe asks for one by one
constexpr std::size_t k_batch_candidates = 32;  // for checkpoints, fetched together
constexpr unsigned k_index_bits = 11;           // of a replica among those asked, and of the sightings
constexpr std::uint64_t k_index_max = (std::uint64_t{1} << k_index_bits) - 1;
static_assert(k_replicas_max <= k_index_max && k_chain_units_max + 1 < std::uint64_t{1} << 21);
static_assert(k_batch_candidates <= k_batch_probes && k_far_units / k_near_units <= k_batch_probes);
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
};

// What decides over an asked replica's entries, as it was when the lookup began.
struct asked_replica {
  std::uint64_t horizon = 0;
  std::uint64_t epoch = 0;
  std::uint64_t pages_who = 0;
  std::uint64_t checkpoint_who = 0;  // 0: implied
  std::uint32_t pages_place = 0;     // see entry_view::find

  bool counts(std::uint64_t word, std::uint32_t depth) const {
    if (doubt_field::get(word) != 0) return false;
    return is_model(word) ? age_order_of(word, depth) > horizon : epoch_field::get(word) == epoch;
  }
};

// A position asked for some of the replicas: order[first] .. order[end - 1].
struct probe {
  std::uint32_t position = 0;
  std::uint32_t first = 0;
  std::uint32_t end = 0;
};

struct found_entry {
  std::uint16_t replica = 0;
  std::uint64_t word = 0;
};

struct scratch {
  std::array<asked_replica, k_replicas_max> asked;
  std::array<std::uint16_t, k_replicas_max> slot_of;
  std::array<interval, k_replicas_max + 1> known;        // the last one: whether the key was ever seen
  std::array<std::uint64_t, k_replicas_max + 1> word{};  // 0 but within one probe
  std::array<record_id, k_short_chain_units> chain_hints;
  std::array<record_id, k_batch_probes> hints;
  std::array<std::uint32_t, k_batch_probes> units;
  std::vector<std::uint64_t> open;
  std::vector<std::uint16_t> order;
  std::vector<probe> probes;
  std::vector<std::uint32_t> candidates;
  std::vector<found_entry> found;
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
  bool is_short() const { return chain_.size() <= k_short_chain_units; }

  void ask(std::size_t i) {
    const auto replica = replicas_[i];
    const auto& state = index_.states[replica];
    const auto counted_who = [&](const std::atomic<std::uint8_t>& from, entry_kind model, entry_kind event) {
      const auto counted = static_cast<evidence>(from.load(std::memory_order_acquire));
      if (counted == evidence::implied) return std::uint64_t{0};
      return who(counted == evidence::simulated ? model : event, replica);
    };
    s_.slot_of[replica] = static_cast<std::uint16_t>(i);
    s_.asked[i] = {.horizon = state.horizon.load(std::memory_order_acquire),
                   .epoch = state.epoch.load(std::memory_order_acquire) & k_epoch_mask,
                   .pages_who = counted_who(state.pages, entry_kind::model_pages, entry_kind::event_pages),
                   .checkpoint_who = counted_who(state.checkpoints, entry_kind::model_checkpoint,
                                                 entry_kind::event_checkpoint)};
  }

  // Fetches what reading s_.units[0 .. n) needs and leaves a hint for each.
  void fetch(std::size_t n) {
    const auto units = std::span(s_.units).first(n);
    if (is_short()) {
      for (std::size_t k = 0; k < n; ++k) s_.hints[k] = s_.chain_hints[units[k]];
    } else {
      for (const auto unit : units) index_.table.prefetch_slot(chain_[unit]);
      for (std::size_t k = 0; k < n; ++k) s_.hints[k] = index_.table.prefetch_record(chain_[units[k]]);
    }
    if (replicas_.size() <= k_inline_replicas) return;
    for (std::size_t k = 0; k < n; ++k) index_.table.prefetch_chunk(s_.hints[k]);
  }

  // All asked replicas whose pages (or checkpoint) at this unit count, into s_.found. False: never seen.
  bool collect(std::uint32_t unit, record_id hint, std::uint64_t asked_replica::*counted_who) {
    ++probes_;
    s_.found.clear();
    return index_.table.read(chain_[unit], hint, [&](const entry_view& entries) {
      s_.found.clear();
      entries.for_each([&](std::uint64_t word) {
        const auto i = s_.slot_of[replica_field::get(word)];
        if (i == k_not_asked || s_.asked[i].*counted_who != (word & k_who_mask)) return;
        if (s_.asked[i].counts(word, entries.depth)) s_.found.push_back({i, word});
      });
    });
  }

  // What the probe at position c says about one replica, or (the last one) about sightings. word 0: absent.
  void learn(std::size_t i, std::uint32_t c, std::uint64_t word) {
    auto& known = s_.known[i];
    if (c >= known.high) return;
    if (word == 0) {
      known.high = c;
      if (known.low >= c) known.low = 0;  // a hole: what is above it is searched anew
    } else if (c > known.low) {
      known.low = c;
      if (i == replicas_.size()) return;
      out_[i].pages_from = confidence_of(word);
      out_[i].pages_medium = medium_of(word);
    }
  }

  void ask_many(const probe& p, record_id hint) {
    const bool seen = collect(p.position - 1, hint, &asked_replica::pages_who);
    for (const auto& e : s_.found) s_.word[e.replica] = e.word;
    s_.word[replicas_.size()] = seen ? 1 : 0;
    for (auto k = p.first; k < p.end; ++k) learn(s_.order[k], p.position, s_.word[s_.order[k]]);
    for (const auto& e : s_.found) s_.word[e.replica] = 0;
  }

  // Most entries of a key that many replicas hold are not looked at.
  void ask_few(const probe& p, record_id hint) {
    ++probes_;
    const auto few = std::span(s_.order).subspan(p.first, p.end - p.first);
    std::array<std::uint64_t, k_few_replicas> words{};
    const bool seen = index_.table.read(chain_[p.position - 1], hint, [&](const entry_view& entries) {
      for (std::size_t k = 0; k < few.size(); ++k) {
        if (few[k] == replicas_.size()) continue;
        auto& asked = s_.asked[few[k]];
        const auto word = entries.find(asked.pages_who, asked.pages_place);
        words[k] = word != 0 && asked.counts(word, entries.depth) ? word : 0;
      }
    });
    for (std::size_t k = 0; k < few.size(); ++k) {
      const bool sighting = few[k] == replicas_.size();
      learn(few[k], p.position, !seen ? 0 : sighting ? 1 : words[k]);
    }
  }

  void run_probes() {
    for (std::size_t first = 0; first < s_.probes.size(); first += k_batch_probes) {
      const auto batch =
          std::span(s_.probes).subspan(first, std::min(k_batch_probes, s_.probes.size() - first));
      for (std::size_t k = 0; k < batch.size(); ++k) s_.units[k] = batch[k].position - 1;
      fetch(batch.size());
      for (std::size_t k = 0; k < batch.size(); ++k) {
        if (batch[k].end - batch[k].first <= k_few_replicas) {
          ask_few(batch[k], s_.hints[k]);
        } else {
          ask_many(batch[k], s_.hints[k]);
        }
      }
    }
  }

  // A short prompt's keys are fetched all at once: the search would wait for them round by round, and whoever
  // asks mostly writes to them next.
  void gallop() {
    if (is_short()) {
      for (const auto& key : chain_) index_.table.prefetch_slot(key);
      for (std::size_t u = 0; u < count(); ++u) s_.chain_hints[u] = index_.table.prefetch_record(chain_[u]);
    }
    const auto all = static_cast<std::uint32_t>(replicas_.size() + 1);
    s_.order.resize(all);
    for (std::uint16_t i = 0; i < all; ++i) s_.order[i] = i;
    s_.probes.clear();
    for (std::uint32_t c = 1; c < count(); c *= 2) s_.probes.push_back({c, 0, all});
    s_.probes.push_back({count(), 0, all});
    run_probes();
  }

  void search() {
    while (list_open()) {
      std::uint32_t gaps = 1;
      for (std::size_t k = 1; k < s_.open.size(); ++k)
        gaps += is_same_gap(s_.open[k], s_.open[k - 1]) ? 0 : 1;
      const auto each = std::clamp(k_round_probes / gaps, 1U, k_interval_probes_max);
      s_.order.clear();
      s_.probes.clear();
      for (std::uint32_t first = 0, end = 0; first < s_.open.size(); first = end) {
        while (end < s_.open.size() && is_same_gap(s_.open[end], s_.open[first])) {
          s_.order.push_back(static_cast<std::uint16_t>(s_.open[end++] & k_index_max));
        }
        const auto gap = s_.known[s_.order[first]];
        const auto inside = gap.high - gap.low - 1;
        const auto probes = std::min(each, inside);
        for (std::uint32_t k = 1; k <= probes; ++k) {
          const auto step = static_cast<std::uint32_t>((std::uint64_t{inside} + 1) * k / (probes + 1));
          s_.probes.push_back({gap.low + step, first, end});
        }
      }
      run_probes();
    }
  }

  static bool is_same_gap(std::uint64_t a, std::uint64_t b) { return (a ^ b) >> k_index_bits == 0; }

  // The intervals that are not narrowed down yet, sorted, each with its replica's index in the low bits.
  bool list_open() {
    s_.open.clear();
    for (std::size_t i = 0; i <= replicas_.size(); ++i) {
      const std::uint64_t low = s_.known[i].low;
      const std::uint64_t high = s_.known[i].high;
      if (high - low > 1) s_.open.push_back((low << 21 | high) << k_index_bits | i);
    }
    std::sort(s_.open.begin(), s_.open.end());
    return !s_.open.empty();
  }

  // Returns whether anybody's match became shorter.
  bool check_holes() {
    const auto n = static_cast<std::uint32_t>(replicas_.size());
    s_.order.resize(n + 1);
    for (std::uint16_t i = 0; i <= n; ++i) s_.order[i] = i;
    std::sort(s_.order.begin(), s_.order.begin() + n,
              [this](auto a, auto b) { return s_.known[a].low < s_.known[b].low; });
    s_.probes.clear();
    std::uint32_t deepest = 0;
    std::uint64_t before = 0;
    for (std::uint32_t first = 0, end = 0; first < n; first = end) {
      deepest = s_.known[s_.order[first]].low;
      while (end < n && s_.known[s_.order[end]].low == deepest) before += s_.known[s_.order[end++]].high;
      if (deepest > 1) s_.probes.push_back({deepest - 1, first, end});  // just below the frontier
    }
    if (deepest < 2) return false;
    auto random = mix(index_.seed ^ chain_.back().low);
    for (std::size_t k = 0; k < k_seeded_probes; ++k) {
      s_.probes.push_back({1 + static_cast<std::uint32_t>(random % (deepest - 1)), 0, n + 1});
      random = mix(random + k);
    }
    run_probes();
    std::uint64_t after = 0;
    for (std::size_t i = 0; i < n; ++i) after += s_.known[i].high;
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
      if (s_.asked[i].checkpoint_who != 0) continue;
      o.checkpoint = o.pages;
      o.checkpoint_from = o.pages_from;
      o.checkpoint_medium = o.pages_medium;
    }
    const auto groups = (deepest_pending() + k_far_units - 1) / k_far_units;
    for (std::uint32_t g = 0; g < groups; ++g) index_.table.prefetch_slot(chain_[g * k_far_units]);
    for (std::uint32_t g = 0; g < groups; ++g) index_.table.prefetch_record(chain_[g * k_far_units]);
    for (auto group = groups; group-- > 0;) {
      const auto limit = std::min(deepest_pending(), (group + 1) * k_far_units);
      if (limit == 0) return;
      if (limit > group * k_far_units) search_far(group * k_far_units, limit);
    }
  }

  // The most units that a replica without its checkpoint found holds; 0: all are found.
  std::uint32_t deepest_pending() const {
    std::uint32_t deepest = 0;
    if (checked_ >= k_checkpoint_probes_max) return 0;
    for (const auto& o : out_) {
      if (o.checkpoint == 0) deepest = std::max(deepest, o.pages);
    }
    return deepest;
  }

  std::uint64_t summary(std::uint32_t unit, record_id hint, entry_kind kind) {
    ++probes_;
    std::uint64_t word = 0;
    const bool seen = index_.table.read(chain_[unit], hint, [&](const entry_view& entries) {
      std::uint32_t place = entries.chunk_words;
      word = entries.find(who(kind, 0), place);
    });
    return seen ? summary_field::get(word) : 0;
  }

  // Candidates in the far group that begins at `first`, at or below `limit` units, deepest first.
  void search_far(std::uint32_t first, std::uint32_t limit) {
    const auto far_bits = summary(first, 0, entry_kind::far_summary);
    std::size_t nears = 0;
    for (auto near = k_far_units / k_near_units; near-- > 0;) {
      const auto unit = first + near * k_near_units;
      if ((far_bits >> near & 1) != 0 && unit < limit) s_.units[nears++] = unit;
    }
    fetch(nears);
    s_.candidates.clear();
    for (std::size_t k = 0; k < nears; ++k) {
      const auto unit = s_.units[k];
      const auto bits = summary(unit, s_.hints[k], entry_kind::near_summary);
      for (auto bit = k_near_units; bit-- > 0;) {
        if ((bits >> bit & 1) != 0 && unit + bit < limit) s_.candidates.push_back(unit + bit);
      }
    }
    for (std::size_t k = 0; k < s_.candidates.size(); k += k_batch_candidates) {
      if (deepest_pending() <= s_.candidates[k]) return;
      check_candidates(
          std::span(s_.candidates).subspan(k, std::min(k_batch_candidates, s_.candidates.size() - k)));
    }
  }

  void check_candidates(std::span<const std::uint32_t> candidates) {
    std::copy(candidates.begin(), candidates.end(), s_.units.begin());
    fetch(candidates.size());
    for (std::size_t k = 0; k < candidates.size(); ++k) {
      ++checked_;
      if (!collect(candidates[k], s_.hints[k], &asked_replica::checkpoint_who)) continue;
      for (const auto& e : s_.found) {
        auto& o = out_[e.replica];
        if (o.checkpoint != 0 || candidates[k] >= o.pages) continue;
        o.checkpoint = candidates[k] + 1;
        o.checkpoint_from = confidence_of(e.word);
        o.checkpoint_medium = medium_of(e.word);
      }
    }
  }

  const residency_index::impl& index_;
  std::span<const block_key> chain_;
  std::span<const replica_id> replicas_;
  std::span<holding> out_;
  scratch& s_;
  std::uint32_t probes_ = 0;
  std::uint32_t checked_ = 0;  // candidates for checkpoints
};

}  // namespace

chain_facts residency_index::find(std::span<const block_key> chain, std::span<const replica_id> replicas,
                                  std::span<holding> out) const {
  assert(out.size() == replicas.size() && replicas.size() <= k_replicas_max);
  thread_local scratch s;
  return chain_search(*impl_, chain.first(std::min(chain.size(), k_chain_units_max)), replicas, out, s).run();
}

}  // namespace weir::prefix_index
