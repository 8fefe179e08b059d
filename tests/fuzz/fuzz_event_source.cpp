// Drives an event source with arbitrary event sequences. An oracle that keeps every block as it is told, in
// plain maps, says what the replica may hold at most and must hold at least.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>

#include "prefix_index/event_source.hpp"

namespace {

using namespace weir::prefix_index;  // NOLINT: a fuzz target is one file

constexpr replica_id k_replica = 5;
constexpr std::uint32_t k_unit = 4;
const block_key k_root{.low = 1, .high = 2};
constexpr std::array<int, 3> k_copies_max{255, 63, 63};  // that many are never counted down

[[noreturn]] void fail() {
  std::abort();
}

// Bytes as decisions; zero when they are used up.
class decisions {
 public:
  decisions(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool done() const { return at_ >= size_; }
  std::uint32_t below(std::uint32_t n) { return done() ? 0 : data_[at_++] % n; }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

// Blocks of one unit: what the source must know, told in order and without limits.
class oracle {
 public:
  void apply(const kv_batch& batch) {
    for (const auto& event : batch.events) {
      if (const auto* s = std::get_if<kv_stored>(&event)) stored(*s);
      if (const auto* r = std::get_if<kv_removed>(&event)) removed(*r);
      if (std::holds_alternative<kv_cleared>(event)) clear();
    }
  }
  void clear() { blocks_.clear(); }

  bool holds(const block_key& key) const {
    for (const auto& [hash, b] : blocks_) {
      if (b.key == key) return true;
    }
    return false;
  }

 private:
  struct block {
    block_key key;
    std::array<int, 3> copies{};
  };

  void stored(const kv_stored& e) {
    if (e.hashes.empty() || e.group != kv_group::pages) return;
    if (e.tokens.empty()) {
      for (const auto hash : e.hashes) {
        if (const auto at = blocks_.find(hash); at != blocks_.end()) count(at->second, e.medium);
      }
      return;
    }
    if (e.block_tokens != k_unit || e.tokens.size() != e.hashes.size() * k_unit) return;
    block_key key = k_root;
    if (e.parent) {
      const auto at = blocks_.find(*e.parent);
      if (at == blocks_.end()) return;
      key = at->second.key;
    }
    for (std::size_t i = 0; i < e.hashes.size(); ++i) {
      key = next_key(key, std::span(e.tokens).subspan(i * k_unit, k_unit));
      const auto known = blocks_.find(e.hashes[i]);
      if (known != blocks_.end() ? known->second.key != key : holds(key)) return;
      count(blocks_.try_emplace(e.hashes[i], block{.key = key}).first->second, e.medium);
    }
  }

  static void count(block& b, kv_medium medium) {
    const auto at = static_cast<std::size_t>(medium);
    b.copies[at] = std::min(b.copies[at] + 1, k_copies_max[at]);
  }

  void removed(const kv_removed& e) {
    for (const auto hash : e.hashes) {
      const auto at = blocks_.find(hash);
      if (at == blocks_.end()) continue;
      const auto medium = static_cast<std::size_t>(e.medium);
      auto& copies = at->second.copies[medium];
      if (copies > 0 && copies < k_copies_max[medium]) --copies;
      if (at->second.copies == std::array<int, 3>{}) blocks_.erase(at);
    }
  }

  std::map<engine_hash, block> blocks_;
};

kv_event make_event(decisions& d, std::uint32_t block_tokens, bool many_groups) {
  const auto kind = d.below(8);
  if (kind == 0) return kv_cleared{};
  const auto count = d.below(4);
  const auto hash = [&d] { return engine_hash{d.below(24)}; };
  const auto medium = static_cast<kv_medium>(d.below(3));
  if (kind <= 3) {
    kv_removed e{.medium = medium};
    for (std::uint32_t i = 0; i < count; ++i) e.hashes.push_back(hash());
    if (many_groups) e.group_index = static_cast<std::int32_t>(d.below(4));
    return e;
  }
  kv_stored e{.block_tokens = block_tokens, .medium = medium};
  for (std::uint32_t i = 0; i < count; ++i) e.hashes.push_back(hash());
  if (d.below(3) != 0) e.parent = hash();
  if (d.below(6) != 0) e.tokens.resize(count * block_tokens);
  for (auto& token : e.tokens) token = static_cast<std::int32_t>(d.below(2));
  if (d.below(20) == 0) e.tokens.push_back(1);
  if (d.below(20) == 0) e.block_tokens = d.below(10);
  if (many_groups) {
    e.group_index = static_cast<std::int32_t>(d.below(4));
    e.group = static_cast<kv_group>(d.below(3));
  }
  return e;
}

// All chains of two-valued tokens are too many: those of one value per unit are enough to meet stored ones.
void check(const residency_index& index, const oracle& truth) {
  for (std::uint32_t pattern = 0; pattern < 16; ++pattern) {
    std::vector<std::int32_t> tokens;
    for (std::uint32_t unit = 0; unit < 4; ++unit) tokens.insert(tokens.end(), k_unit, pattern >> unit & 1);
    const auto chain = chain_keys(k_root, tokens, k_unit);
    holding out;
    index.find(chain, std::span(&k_replica, 1), std::span(&out, 1));
    std::uint32_t contiguous = 0;
    while (contiguous < chain.size() && truth.holds(chain[contiguous])) ++contiguous;
    if (out.pages < contiguous) fail();
    if (out.pages > 0 && !truth.holds(chain[out.pages - 1])) fail();
    if (out.checkpoint > out.pages) fail();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decisions d(data, size);
  const auto mode = d.below(4);
  constexpr std::array<std::uint32_t, 4> k_block_tokens{k_unit, k_unit, 2, 8};
  const auto block_tokens = k_block_tokens[mode];
  const bool exact = mode == 0;  // one group, blocks of one unit: the oracle knows all
  residency_index index({.bytes_max = k_index_bytes_min});
  event_source source(index, k_replica, {.unit_tokens = k_unit, .has_checkpoints = !exact},
                      [](std::string_view, std::string_view) { return std::optional(k_root); });
  oracle truth;
  std::uint64_t sequence = 0;
  while (!d.done()) {
    kv_batch batch;
    for (auto events = d.below(3); events-- > 0;) {
      batch.events.push_back(make_event(d, block_tokens, !exact));
      if (exact) {
        if (auto* s = std::get_if<kv_stored>(&batch.events.back())) s->block_tokens = k_unit;
      }
    }
    if (exact) {
      source.received(sequence++, batch);
      truth.apply(batch);
      check(index, truth);
      continue;
    }
    switch (d.below(8)) {
      case 0:
        source.reconnected();
        break;
      case 1:
        source.replay_ended();
        break;
      case 2:
        source.replayed(sequence + d.below(3), batch);
        break;
      case 3:
        source.received(d.below(4), batch);
        break;
      case 4:
        source.received(sequence += d.below(4), batch);
        break;
      case 5:
        index.clear(k_replica);
        break;
      default:
        source.received(sequence++, batch);
        break;
    }
  }
  return 0;
}
