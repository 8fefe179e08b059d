#include "prefix_index/residency_table.hpp"

#include <algorithm>
#include <bit>

namespace weir::prefix_index {

residency_table::residency_table(std::size_t bytes_max, const replica_states& states)
    : states_(states), region_(bytes_max) {}

// ---- readers

record_id residency_table::find_id(const shard& s, const block_key& key) const {
  const auto table = s.table.load(std::memory_order_acquire);
  const auto capacity = static_cast<std::uint32_t>(table);
  if (capacity == 0) return 0;
  const auto* slots = region_.words((table >> 32) * 64);
  const auto tag = key.low >> 32;
  auto at = home_of(tag, capacity);
  for (std::uint32_t i = 0; i < capacity; i += k_line_words) {
    for (auto same = match_line(slots + at, tag); same != 0; same &= same - 1) {
      const auto id = static_cast<record_id>(load_word(slots[at + std::countr_zero(same)]));
      if (id != 0 && has_key(record_at(id), key)) return id;  // 0: it moved meanwhile
    }
    if (load_word(slots[at + k_line_words - 1]) == 0) return 0;
    at += k_line_words;
    if (at == capacity) at = 0;
  }
  return 0;
}

bool residency_table::read(const block_key& key, entry_copy& out) const {
  return read(key, 0, [&out](const entry_view& entries) {
    out.depth = entries.depth;
    out.count = 0;
    entries.for_each([&out](std::uint64_t word) {
      out.words[out.count] = word;
      out.count += word != 0;
    });
  });
}

record_id residency_table::prefetch_record(const block_key& key) const {
  const auto table = shards_[shard_of(key)].table.load(std::memory_order_acquire);
  const auto capacity = static_cast<std::uint32_t>(table);
  if (capacity == 0) return 0;
  const auto tag = key.low >> 32;
  const auto* line = region_.words((table >> 32) * 64) + home_of(tag, capacity);
  const auto same = match_line(line, tag);
  if (same == 0) return 0;
  const auto id = static_cast<record_id>(load_word(line[std::countr_zero(same)]));
  __builtin_prefetch(&record_at(id));
  return id;
}

void residency_table::prefetch_chunk(record_id id) const {
  constexpr std::uint32_t k_lines_max = 16;
  if (id == 0) return;
  const auto meta = load_word(record_at(id).meta);
  const auto words = std::min(k_chunk_words[class_field::get(meta)], k_lines_max * k_line_words);
  for (std::uint32_t i = 0; i < words; i += k_line_words) __builtin_prefetch(chunk_at(meta) + i);
}

block_key residency_table::key_of(record_id id) const {
  const auto& r = record_at(id);
  return {.low = load_word(r.low), .high = load_word(r.high)};
}

std::uint32_t residency_table::depth_of(record_id id) const {
  return static_cast<std::uint32_t>(depth_field::get(load_word(record_at(id).meta)));
}

index_stats residency_table::stats() const {
  index_stats out{.bytes = region_.bytes() + sizeof *this};
  for (const auto& s : shards_) {
    out.keys += s.keys.load(std::memory_order_relaxed);
    out.entries += s.entries.load(std::memory_order_relaxed);
    out.keys_refused += s.keys_refused.load(std::memory_order_relaxed);
    out.keys_reclaimed += s.keys_reclaimed.load(std::memory_order_relaxed);
  }
  return out;
}

// ---- a locked record

std::uint32_t residency_table::locked::depth() const {
  return static_cast<std::uint32_t>(depth_field::get(record_->meta));
}

std::uint64_t* residency_table::locked::find_in_chunk(std::uint64_t who) const {
  auto* chunk = table_->chunk_at(record_->meta);
  const auto words = k_chunk_words[class_field::get(record_->meta)];
  for (std::uint32_t i = 0; i < words; ++i) {
    if ((chunk[i] & k_who_mask) == who) return chunk + i;
  }
  return nullptr;
}

// Dead entries are overwritten before the chunk grows.
std::uint64_t* residency_table::locked::free_word() const {
  const auto entry_depth = depth();
  if (!is_live(record_->first, entry_depth, table_->states_)) return &record_->first;
  auto* chunk = table_->chunk_at(record_->meta);
  const auto words = k_chunk_words[class_field::get(record_->meta)];
  for (std::uint32_t i = 0; i < words; ++i) {
    if (!is_live(chunk[i], entry_depth, table_->states_)) return chunk + i;
  }
  return nullptr;
}

bool residency_table::locked::add(std::uint64_t word) {
  auto* place = free_word();
  if (place == nullptr) {
    if (!table_->enlarge(*shard_, *record_)) return false;
    place = free_word();
  }
  if (*place == 0) add_to(shard_->entries, 1);
  store_word(*place, word);
  return true;
}

void residency_table::locked::erase(std::uint64_t who) {
  auto* place = find(who);
  if (place == nullptr) return;
  store_word(*place, 0);
  add_to(shard_->entries, -1);
}

residency_table::locked residency_table::open(const block_key& key) {
  locked out(*this, shards_[shard_of(key)]);
  out.name(find_id(*out.shard_, key));
  return out;
}

// Records stay within their shard, so a hint's key may be looked at under this key's lock.
residency_table::locked residency_table::open_or_create(const block_key& key, std::uint32_t depth,
                                                        fresh_records& fresh, record_id hint) {
  locked out(*this, shards_[shard_of(key)]);
  auto id = hint != 0 && has_key(record_at(hint), key) ? hint : find_id(*out.shard_, key);
  if (id == 0) id = create(*out.shard_, key, depth, fresh);
  out.name(id);
  if (id == 0) return out;
  auto& meta = out.record_->meta;
  if (recent_field::get(meta) == 0) store_word(meta, recent_field::set(meta, 1));
  return out;
}

residency_table::locked residency_table::open(record_id id) {
  if (id == 0) return {};
  const auto key = key_of(id);
  auto out = open(key);
  if (out.id_ != id) out.record_ = nullptr;
  return out;
}

}  // namespace weir::prefix_index
