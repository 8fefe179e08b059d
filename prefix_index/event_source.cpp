#include "prefix_index/event_source.hpp"

#include <cassert>
#include <deque>
#include <map>
#include <utility>

#include "prefix_index/engine_blocks.hpp"
#include "prefix_index/event_checkpoints.hpp"

namespace weir::prefix_index {

namespace {

constexpr std::size_t k_groups_max = 64;

}  // namespace

struct event_source::impl {
  impl(residency_index& i, replica_id r, const event_source_options& o, scope_lookup s)
      : index(i), replica(r), options(o), scopes(std::move(s)), checkpoints(i, r), epoch(i.epoch(r)) {}

  // ---- events

  void apply(const kv_batch& batch) {
    if (batch.data_parallel_rank != options.data_parallel_rank) return;
    follow_clear();
    ++counters.batches;
    for (const auto& event : batch.events) {
      if (!refusal.empty()) return;
      if (const auto* stored = std::get_if<kv_stored>(&event)) {
        on_stored(*stored);
      } else if (const auto* removed = std::get_if<kv_removed>(&event)) {
        on_removed(*removed);
      } else {
        forget();
      }
    }
    counters.ambiguous_checkpoint += checkpoints.settle(blocks.get());
  }

  void on_stored(const kv_stored& e) {
    if (e.hashes.empty() || e.hashes.size() > k_event_hashes_max || e.tokens.size() > k_event_tokens_max ||
        e.block_tokens > k_block_tokens_max || !learn_group(e.group_index, e.group)) {
      ++counters.malformed;
      return;
    }
    if (e.group == kv_group::other) return;
    if (e.group == kv_group::checkpoint) {
      if (options.has_checkpoints && !checkpoints.stored(e.group_index, e.hashes, e.medium)) {
        ++counters.malformed;
      }
      return;
    }
    if (e.tokens.empty()) return on_stored_again(e);
    if (e.block_tokens == 0 || e.tokens.size() != e.hashes.size() * e.block_tokens) {
      ++counters.malformed;
      return;
    }
    if (!accept_block_size(e.block_tokens)) return;
    block_run run{.hashes = e.hashes, .tokens = e.tokens, .parent = e.parent, .medium = e.medium};
    if (!e.parent) {
      const auto root = scopes(e.adapter, e.cache_salt);
      if (!root) {
        ++counters.unknown_scope;
        return;
      }
      run.root = *root;
    }
    store_pages(run);
  }

  void store_pages(const block_run& run) {
    std::size_t stored = 0;
    switch (blocks->store(run, stored)) {
      case block_result::stored:
        break;
      case block_result::unknown_parent:
        ++counters.unknown_parent;
        break;
      case block_result::no_room:
        ++counters.no_room;
        break;
      case block_result::contradiction:
        ++counters.malformed;
        break;
    }
    counters.blocks_stored += stored;
    checkpoints.pages_stored(run.hashes.first(stored));
  }

  // An offload that names blocks without their tokens.
  void on_stored_again(const kv_stored& e) {
    for (const auto hash : e.hashes) {
      if (blocks && blocks->store_known(hash, e.medium)) {
        ++counters.blocks_stored;
      } else {
        ++counters.unplaced;
      }
    }
  }

  void on_removed(const kv_removed& e) {
    if (e.hashes.size() > k_event_hashes_max) {
      ++counters.malformed;
      return;
    }
    auto group = kv_group::pages;
    if (e.group_index) {
      if (const auto at = groups.find(*e.group_index); at != groups.end()) group = at->second;
    }
    if (group == kv_group::other) return;
    for (const auto hash : e.hashes) {
      const bool known = group == kv_group::checkpoint ? checkpoints.removed(*e.group_index, hash)
                                                       : blocks && blocks->remove(hash, e.medium);
      ++(known ? counters.blocks_removed : counters.unknown_removed);
    }
  }

  bool learn_group(std::int32_t group_index, kv_group group) {
    if (groups.size() >= k_groups_max && !groups.contains(group_index)) return false;
    return groups.emplace(group_index, group).first->second == group;
  }

  bool accept_block_size(std::uint32_t block_tokens) {
    if (blocks) {
      counters.malformed += block_tokens != blocks_tokens;
      return block_tokens == blocks_tokens;
    }
    if (!fits(options.unit_tokens, block_tokens)) {
      refusal = "engine blocks of " + std::to_string(block_tokens) +
                " tokens neither divide nor are divided by " + "the unit of " +
                std::to_string(options.unit_tokens) + " tokens";
      index.clear(replica);
      return false;
    }
    blocks = make_engine_blocks(index, {.replica = replica,
                                        .unit_tokens = options.unit_tokens,
                                        .block_tokens = block_tokens,
                                        .needs_boundaries = options.has_checkpoints,
                                        .seed = options.seed});
    blocks_tokens = block_tokens;
    return true;
  }

  void forget() {
    ++counters.cleared;
    index.clear(replica);
    follow_clear();
  }

  // Record names end with the epoch they came from, whoever ended it.
  void follow_clear() {
    const auto now = index.epoch(replica);
    if (now == epoch) return;
    epoch = now;
    if (blocks) blocks->clear();
    checkpoints.clear();
  }

  // ---- sequence

  event_step ask_replay() {
    if (attempts == k_replay_attempts_max) return give_up();
    ++attempts;
    replaying = true;
    return {.what = event_step::kind::replay, .from = next.value_or(0)};
  }

  // The lost batches are not to be had: what they said is unknown, so nothing is known.
  event_step give_up() {
    ++counters.replays_given_up;
    forget();
    next.reset();
    attempts = 0;
    return drain();
  }

  void take(std::uint64_t sequence, const kv_batch& batch) {
    apply(batch);
    next = sequence + 1;
    attempts = 0;
  }

  event_step drain() {
    replaying = false;
    while (!waiting.empty()) {
      const auto sequence = waiting.front().first;
      if (next && sequence > *next) return ask_replay();
      const auto batch = std::move(waiting.front().second);
      waiting.pop_front();
      if (!next || sequence == *next) take(sequence, batch);
    }
    return outcome();
  }

  event_step outcome() const {
    return {.what = refusal.empty() ? event_step::kind::go_on : event_step::kind::refused};
  }

  residency_index& index;
  const replica_id replica;
  const event_source_options options;
  const scope_lookup scopes;

  std::unique_ptr<engine_blocks> blocks;  // once the block size is known
  std::uint32_t blocks_tokens = 0;
  event_checkpoints checkpoints;
  std::map<std::int32_t, kv_group> groups;
  std::uint64_t epoch;
  event_counters counters;
  std::string refusal;

  std::optional<std::uint64_t> next;  // the sequence number that follows what was applied
  std::uint64_t live_next = 0;        // that follows the newest live batch
  bool replaying = false;
  std::uint32_t attempts = 0;
  std::deque<std::pair<std::uint64_t, kv_batch>> waiting;  // live batches, while replaying
};

event_source::event_source(residency_index& index, replica_id replica, const event_source_options& options,
                           scope_lookup scopes)
    : impl_(std::make_unique<impl>(index, replica, options, std::move(scopes))) {
  assert(options.unit_tokens > 0);
  index.set_evidence(replica, evidence::events,
                     options.has_checkpoints ? evidence::events : evidence::implied);
}
event_source::~event_source() = default;

event_step event_source::received(std::uint64_t sequence, const kv_batch& batch) {
  auto& m = *impl_;
  if (!m.refusal.empty()) return m.outcome();
  if (sequence == ~std::uint64_t{0}) {  // the end marker's number is no batch's
    ++m.counters.malformed;
    return m.outcome();
  }
  if (sequence < m.live_next) {  // a live stream never goes back: the engine began anew
    ++m.counters.restarts;
    m.forget();
    m.waiting.clear();
    m.replaying = false;
    m.attempts = 0;
    m.next = 0;
  }
  m.live_next = sequence + 1;
  if (m.replaying) {
    if (m.waiting.size() < k_waiting_batches_max) m.waiting.emplace_back(sequence, batch);
    return m.outcome();
  }
  if (m.next && sequence < *m.next) {  // the replay brought it already
    ++m.counters.duplicates;
    return m.outcome();
  }
  if (m.next && sequence > *m.next) {
    ++m.counters.gaps;
    m.waiting.emplace_back(sequence, batch);
    return m.ask_replay();
  }
  m.take(sequence, batch);
  return m.outcome();
}

event_step event_source::reconnected() {
  auto& m = *impl_;
  if (!m.refusal.empty()) return m.outcome();
  m.attempts = 0;
  return m.ask_replay();
}

event_step event_source::replayed(std::uint64_t sequence, const kv_batch& batch) {
  auto& m = *impl_;
  if (!m.replaying || !m.refusal.empty() || sequence == ~std::uint64_t{0}) return m.outcome();
  if (m.next && sequence < *m.next) {
    ++m.counters.duplicates;
    return m.outcome();
  }
  const bool from_the_start = !m.next && sequence == 0;  // the whole truth: hints from disk are superseded
  if (from_the_start || (m.next && sequence > *m.next)) m.forget();
  m.take(sequence, batch);
  return m.outcome();
}

event_step event_source::replay_ended() {
  return impl_->refusal.empty() && impl_->replaying ? impl_->drain() : impl_->outcome();
}

void event_source::reset() {
  auto& m = *impl_;
  m.forget();
  m.waiting.clear();
  m.replaying = false;
  m.attempts = 0;
  m.next.reset();
  m.live_next = 0;
}

const event_counters& event_source::counters() const {
  return impl_->counters;
}

std::string_view event_source::refusal() const {
  return impl_->refusal;
}

std::size_t event_source::bookkeeping_bytes() const {
  return (impl_->blocks ? impl_->blocks->bytes() : 0) + impl_->checkpoints.bytes();
}

}  // namespace weir::prefix_index
