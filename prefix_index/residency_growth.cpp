// How the table makes room: new keys, growth, chunks, and the sweep that reclaims under the byte limit.
#include <algorithm>

#include "prefix_index/residency_table.hpp"

namespace weir::prefix_index {

namespace {

constexpr std::uint32_t k_capacity_first = 64;
constexpr std::uint32_t k_block_bytes = 4096;  // what a shard carves records and small chunks from
constexpr std::uint32_t k_chunk_granule_bytes = 16;
constexpr int k_reclaim_steps_max = 128;  // keys looked at before a recent one goes, or a new one is refused

static_assert(sizeof(record) == 32);
static_assert(k_chain_units_max <= depth_field::k_max);
static_assert(k_chunk_words.size() <= class_field::k_max + 1);
static_assert(k_chunk_words.back() >= 4 * k_replicas_max + 2);

constexpr std::uint32_t whole_lines(std::uint64_t words) {
  return static_cast<std::uint32_t>((words + k_line_words - 1) / k_line_words * k_line_words);
}

// How many words of a line are used, given that the last one is not: they come first.
std::uint32_t used_words(const std::uint64_t* line) {
  std::uint32_t used = line[3] != 0 ? 4 : 0;
  used += line[used + 1] != 0 ? 2 : 0;
  return used + (line[used] != 0 ? 1 : 0);
}

std::uint64_t with_next_version(std::uint64_t meta) {
  return version_field::set(meta, version_field::get(meta) + 1);
}

}  // namespace

record_id residency_table::create(shard& s, const block_key& key, std::uint32_t depth, fresh_records& fresh) {
  const auto refuse = [&s] {
    s.keys_refused.fetch_add(1, std::memory_order_relaxed);
    return record_id{0};
  };
  if (!reserve_slot(s)) return refuse();
  auto id = take_record(s, fresh);
  if (id == 0 && reclaim(s)) id = take_record(s, fresh);
  if (id == 0) return refuse();

  auto& r = record_at(id);
  const auto changing = with_next_version(r.meta);  // odd
  store_word(r.meta, changing);
  store_word(r.low, key.low);
  store_word(r.high, key.high);
  store_word(r.first, 0);
  store_word(r.meta, depth_field::set(version_field::set(0, version_field::get(changing) + 1), depth));

  const auto table = s.table.load(std::memory_order_relaxed);
  insert_slot(region_.words((table >> 32) * 64), static_cast<std::uint32_t>(table), key.low >> 32 << 32 | id);
  add_to(s.keys, 1);
  return id;
}

// Linear probing stays short below 4/5; without memory to grow a fuller table is accepted.
bool residency_table::reserve_slot(shard& s) {
  const auto capacity = static_cast<std::uint32_t>(s.table.load(std::memory_order_relaxed));
  const auto keys = std::uint64_t{s.keys.load(std::memory_order_relaxed)} + 1;
  if (keys * 5 <= std::uint64_t{capacity} * 4) return true;
  if (grow(s, whole_lines(std::max(k_capacity_first, capacity + capacity / 2)))) return true;
  return keys * 16 <= std::uint64_t{capacity} * 15 || reclaim(s);
}

void residency_table::reserve(std::uint64_t keys) {
  const auto capacity =
      std::clamp<std::uint64_t>(keys / k_shards * 4 / 3, k_capacity_first, std::uint32_t{1} << 31);
  for (auto& s : shards_) {
    const std::lock_guard guard(s.lock);
    const auto now = static_cast<std::uint32_t>(s.table.load(std::memory_order_relaxed));
    if (capacity > now && !grow(s, whole_lines(capacity))) return;
  }
}

bool residency_table::grow(shard& s, std::uint32_t capacity) {
  const auto old_table = s.table.load(std::memory_order_relaxed);
  const auto old_capacity = static_cast<std::uint32_t>(old_table);
  const auto offset = region_.carve(std::size_t{capacity} * sizeof(std::uint64_t), region_part::discardable);
  if (offset == 0) return false;
  auto* slots = region_.words(offset);
  const auto* old_slots = region_.words((old_table >> 32) * 64);
  for (std::uint32_t i = 0; i < old_capacity; ++i) {
    if (old_slots[i] != 0) insert_slot(slots, capacity, old_slots[i]);
  }
  s.sequence.fetch_add(1, std::memory_order_acq_rel);
  s.table.store(offset / 64 << 32 | capacity, std::memory_order_release);
  if (old_capacity != 0) {
    region_.discard((old_table >> 32) * 64, std::size_t{old_capacity} * sizeof(std::uint64_t));
  }
  s.sequence.fetch_add(1, std::memory_order_release);
  s.hand = 0;
  return true;
}

void residency_table::insert_slot(std::uint64_t* slots, std::uint32_t capacity, std::uint64_t word) {
  auto at = home_of(word >> 32, capacity);
  while (slots[at + k_line_words - 1] != 0) {
    at += k_line_words;
    if (at == capacity) at = 0;
  }
  store_word(slots[at + used_words(slots + at)], word);
}

// Closes the gap by moving later words of the run back, so that no tombstones gather.
void residency_table::erase_slot(shard& s, std::uint32_t position) {
  const auto table = s.table.load(std::memory_order_relaxed);
  const auto capacity = static_cast<std::uint32_t>(table);
  auto* slots = region_.words((table >> 32) * 64);
  s.sequence.fetch_add(1, std::memory_order_acq_rel);
  auto gap = position;
  for (auto at = position;;) {
    if (++at == capacity) at = 0;
    if (slots[at] == 0) break;
    const auto home = home_of(slots[at] >> 32, capacity);
    const auto from_home = at >= home ? at - home : at + capacity - home;
    const auto from_gap = at >= gap ? at - gap : at + capacity - gap;
    if (from_home < from_gap) continue;  // it would land before its home
    store_word(slots[gap], slots[at]);
    gap = at;
  }
  store_word(slots[gap], 0);
  s.sequence.fetch_add(1, std::memory_order_release);
}

std::uint64_t residency_table::carve(shard& s, std::uint32_t bytes) {
  if (bytes > k_block_bytes / 2) return region_.carve(bytes);
  if (s.block_bytes < bytes) {
    const auto block = region_.carve(k_block_bytes);
    if (block == 0) return 0;
    while (s.block_bytes != 0) {  // nothing of the old one is lost
      std::uint32_t size_class = 1;
      while (k_chunk_words[size_class + 1] * 8 <= s.block_bytes) ++size_class;
      free_chunk(s, carve(s, k_chunk_words[size_class] * 8) / k_chunk_granule_bytes, size_class);
    }
    s.block = block;
    s.block_bytes = k_block_bytes;
  }
  const auto offset = s.block;
  s.block += bytes;
  s.block_bytes -= bytes;
  return offset;
}

record_id residency_table::take_record(shard& s, fresh_records& fresh) {
  if (s.free_records != 0) {  // the next one is fetched for the shard's next key, which comes much later
    const auto id = s.free_records;
    s.free_records = static_cast<record_id>(record_at(id).high);
    __builtin_prefetch(&record_at(s.free_records), 1);
    return id;
  }
  if (fresh.count_ == 0) take_spare(fresh);
  if (fresh.count_ == 0) return 0;
  --fresh.count_;
  return fresh.next_++;
}

void residency_table::take_spare(fresh_records& fresh) {
  std::uint64_t spare = 0;
  for (auto& place : spares_) {
    if (place.load(std::memory_order_relaxed) == 0) continue;
    spare = place.exchange(0, std::memory_order_acq_rel);
    if (spare != 0) break;
  }
  if (spare == 0) {
    const auto offset = region_.carve(k_block_bytes);
    if (offset == 0) return;
    spare = offset / sizeof(record) | std::uint64_t{k_block_bytes / sizeof(record)} << 32;
  }
  fresh.next_ = static_cast<record_id>(spare);
  fresh.count_ = static_cast<std::uint32_t>(spare >> 32);
}

void residency_table::keep_spare(record_id first, std::uint32_t count) {
  const auto spare = std::uint64_t{count} << 32 | first;
  for (auto& place : spares_) {
    std::uint64_t none = 0;
    if (place.compare_exchange_strong(none, spare, std::memory_order_acq_rel)) return;
  }
  auto& s = shards_[first % k_shards];  // many writers at once
  const std::lock_guard guard(s.lock);
  for (auto id = first; id < first + count; ++id) free_record(s, id);
}

void residency_table::free_record(shard& s, record_id id) {
  auto& r = record_at(id);
  const auto changing = with_next_version(r.meta);
  store_word(r.meta, changing);
  store_word(r.high, s.free_records);
  store_word(r.meta, version_field::set(0, version_field::get(changing) + 1));
  s.free_records = id;
}

std::uint64_t residency_table::take_chunk(shard& s, std::uint32_t size_class) {
  if (const auto chunk = s.free_chunks[size_class]; chunk != 0) {
    auto* words = region_.words(std::uint64_t{chunk} * k_chunk_granule_bytes);
    s.free_chunks[size_class] = static_cast<std::uint32_t>(words[0]);
    store_word(words[0], 0);
    return chunk;
  }
  return carve(s, k_chunk_words[size_class] * 8) / k_chunk_granule_bytes;
}

void residency_table::free_chunk(shard& s, std::uint64_t chunk, std::uint32_t size_class) {
  auto* words = region_.words(chunk * k_chunk_granule_bytes);
  for (std::uint32_t i = 1; i < k_chunk_words[size_class]; ++i) store_word(words[i], 0);
  store_word(words[0], s.free_chunks[size_class]);
  s.free_chunks[size_class] = static_cast<std::uint32_t>(chunk);
}

bool residency_table::enlarge(shard& s, record& r) {
  const auto old_class = static_cast<std::uint32_t>(class_field::get(r.meta));
  if (old_class + 1 >= k_chunk_words.size()) return false;
  const auto chunk = take_chunk(s, old_class + 1);
  if (chunk == 0) return false;
  auto* words = region_.words(chunk * k_chunk_granule_bytes);
  const auto* old_words = chunk_at(r.meta);
  for (std::uint32_t i = 0; i < k_chunk_words[old_class]; ++i) store_word(words[i], old_words[i]);
  const auto old_chunk = chunk_field::get(r.meta);
  const auto meta = version_field::set(r.meta, version_field::get(r.meta) + 2);
  store_word(r.meta, class_field::set(chunk_field::set(meta, chunk), old_class + 1));
  if (old_class != 0) free_chunk(s, old_chunk, old_class);
  return true;
}

// Frees one key that no replica holds. A key touched since the last round is spared, unless no other is found
// in the steps allowed.
bool residency_table::reclaim(shard& s) {
  const auto table = s.table.load(std::memory_order_relaxed);
  const auto capacity = static_cast<std::uint32_t>(table);
  const auto* slots = region_.words((table >> 32) * 64);
  std::uint32_t spared = capacity;
  int looked_at = 0;
  for (std::uint32_t i = 0; i < capacity && looked_at < k_reclaim_steps_max; ++i, ++s.hand) {
    if (s.hand >= capacity) s.hand = 0;
    const auto slot = slots[s.hand];
    if (slot == 0) continue;
    ++looked_at;
    auto& r = record_at(static_cast<record_id>(slot));
    if (sweep_record(s, r)) continue;
    if (recent_field::get(r.meta) == 0) {
      forget(s, s.hand);
      return true;
    }
    store_word(r.meta, recent_field::set(r.meta, 0));
    if (spared == capacity) spared = s.hand;
  }
  if (spared == capacity) return false;
  forget(s, spared);
  return true;
}

void residency_table::forget(shard& s, std::uint32_t position) {
  const auto table = s.table.load(std::memory_order_relaxed);
  const auto id = static_cast<record_id>(region_.words((table >> 32) * 64)[position]);
  erase_slot(s, position);
  free_record(s, id);
  add_to(s.keys, -1);
  s.keys_reclaimed.fetch_add(1, std::memory_order_relaxed);
}

// Drops dead entries; without live ones also the summaries and the chunk. Returns whether a replica holds it.
bool residency_table::sweep_record(shard& s, record& r) {
  const auto depth = static_cast<std::uint32_t>(depth_field::get(r.meta));
  const auto size_class = static_cast<std::uint32_t>(class_field::get(r.meta));
  auto* chunk = chunk_at(r.meta);
  bool held = false;
  std::int64_t dropped = 0;
  const auto sweep = [&](std::uint64_t& word) {
    if (word == 0) return;
    if (is_live(word, depth, states_)) {
      held |= !is_summary(word);
      return;
    }
    store_word(word, 0);
    ++dropped;
  };
  sweep(r.first);
  for (std::uint32_t i = 0; i < k_chunk_words[size_class]; ++i) sweep(chunk[i]);
  if (!held) {
    if (r.first != 0) {
      store_word(r.first, 0);
      ++dropped;
    }
    for (std::uint32_t i = 0; i < k_chunk_words[size_class]; ++i) dropped += chunk[i] != 0;
    if (size_class != 0) {
      const auto old_chunk = chunk_field::get(r.meta);
      const auto meta = version_field::set(r.meta, version_field::get(r.meta) + 2);
      store_word(r.meta, class_field::set(chunk_field::set(meta, 0), 0));
      free_chunk(s, old_chunk, size_class);
    }
  }
  add_to(s.entries, -dropped);
  return held;
}

}  // namespace weir::prefix_index
