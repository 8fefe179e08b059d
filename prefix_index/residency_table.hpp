// The hash table under residency_index: key -> record -> entries. Internal to the folder.
//
// 256 shards by key. A shard's table is an array of words {32 bits of the key, record}, probed linearly from
// the start of a cache line, so that a look-up mostly needs one line; within a line used words come before
// free ones. A record is 32 bytes {key, meta, first entry}, further entries lie in one chunk per record.
// Records keep their place for life, so a record_id names one. Writers lock the shard. Readers validate
// instead of locking: a record's meta carries a version that is odd while its key or chunk changes, and a
// miss counts only if the shard's sequence did not change meanwhile (growth and deletion move table words).
// After k_read_attempts_max such collisions a reader takes the key for absent, so it never waits for a
// writer.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>

#include "prefix_index/block_key.hpp"
#include "prefix_index/memory_region.hpp"
#include "prefix_index/residency_entry.hpp"
#include "prefix_index/spin_lock.hpp"

namespace weir::prefix_index {

inline constexpr std::size_t k_shards = 256;
inline constexpr int k_read_attempts_max = 16;
inline constexpr std::size_t k_spares = 16;  // as many writers at once leave their fresh records to others

// Entry words that one chunk can hold, by class; class 0: no chunk. The largest holds every replica's three
// kinds and both summaries.
inline constexpr std::array<std::uint32_t, 23> k_chunk_words{
    0, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4608};

inline constexpr std::uint32_t k_line_words = 8;

// Where the search for a tag (the upper half of key.low) begins. It ascends with the tag.
// REQUIRES: capacity % k_line_words == 0.
constexpr std::uint32_t home_of(std::uint64_t tag, std::uint32_t capacity) {
  return static_cast<std::uint32_t>(tag * (capacity / k_line_words) >> 32) * k_line_words;
}

inline std::uint64_t load_word(const std::uint64_t& word) {
  return std::atomic_ref<std::uint64_t>(const_cast<std::uint64_t&>(word)).load(std::memory_order_acquire);
}
inline void store_word(std::uint64_t& word, std::uint64_t value) {
  std::atomic_ref<std::uint64_t>(word).store(value, std::memory_order_release);
}

// Which words of a line have the tag, a bit each.
inline std::uint32_t match_line(const std::uint64_t* line, std::uint64_t tag) {
  std::uint32_t same = 0;
#pragma GCC unroll 8
  for (auto i = k_line_words; i-- > 0;) same = same * 2 + (load_word(line[i]) >> 32 == tag ? 1 : 0);
  return same;
}

struct alignas(32) record {
  std::uint64_t low;
  std::uint64_t high;
  std::uint64_t meta;   // 0-29 chunk / 16 bytes, 30-34 chunk class, 35-54 depth, 55 recent, 56-63 version
  std::uint64_t first;  // an entry
};

using chunk_field = word_field<0, 30>;
using class_field = word_field<30, 5>;
using depth_field = word_field<35, 20>;
using recent_field = word_field<55, 1>;
using version_field = word_field<56, 8>;

// A record's entries where they lie. What is read through it counts only if the read was valid.
struct entry_view {
  std::uint32_t depth = 0;
  std::uint64_t first = 0;
  const std::uint64_t* chunk = nullptr;
  std::uint32_t chunk_words = 0;

  // The entry of `who`, 0 if there is none. `place` says where to look first, and then where it was found:
  // one replica's entries mostly have the same place all along a chain.
  std::uint64_t find(std::uint64_t who, std::uint32_t& place) const {
    if ((first & k_who_mask) == who) return first;
    if (place < chunk_words) {
      if (const auto word = load_word(chunk[place]); (word & k_who_mask) == who) return word;
    }
#pragma GCC unroll 4
    for (std::uint32_t i = 0; i < chunk_words; ++i) {
      const auto word = load_word(chunk[i]);
      if ((word & k_who_mask) != who) continue;
      place = i;
      return word;
    }
    return 0;
  }

  template <typename Visit>
  void for_each(Visit&& visit) const {
    visit(first);
    for (std::uint32_t i = 0; i < chunk_words; ++i) visit(load_word(chunk[i]));
  }
};

// A copy of a record's entries.
struct entry_copy {
  std::uint32_t depth = 0;
  std::uint32_t count = 0;
  std::array<std::uint64_t, k_chunk_words.back() + 1> words;  // not initialised
};

class residency_table final {
  struct shard;

 public:
  residency_table(std::size_t bytes_max, const replica_states& states);

  // Readers.
  bool read(const block_key& key, entry_copy& out) const;

  // Calls visit(entry_view) and returns true if the key is there. A writer may get in between: then visit is
  // called again, and only its last call counts. `hint` may be what prefetch_record gave.
  template <typename Visit>
  bool read(const block_key& key, record_id hint, Visit&& visit) const;
  void prefetch_slot(const block_key& key) const {
    const auto table = shards_[shard_of(key)].table.load(std::memory_order_acquire);
    const auto home = home_of(key.low >> 32, static_cast<std::uint32_t>(table));
    __builtin_prefetch(region_.words((table >> 32) * 64) + home);
  }
  // After prefetch_slot has had its time. Returns the record that is fetched, most likely the key's: a hint
  // for open_or_create; 0: none.
  record_id prefetch_record(const block_key& key) const;
  void prefetch_chunk(record_id id) const;  // after prefetch_record, which gave the id, has had its time
  block_key key_of(record_id id) const;
  std::uint32_t depth_of(record_id id) const;

  // A locked record of a writer. Empty if the key is absent or was refused.
  class locked final {
   public:
    locked() = default;
    explicit operator bool() const { return record_ != nullptr; }
    record_id id() const { return id_; }
    block_key key() const { return {.low = record_->low, .high = record_->high}; }
    std::uint32_t depth() const;

    // The entry of `who` (see residency_entry.hpp), 0 if there is none.
    std::uint64_t get(std::uint64_t who) const {
      const auto* const word = find(who);
      return word != nullptr ? *word : 0;
    }

    // Writes the entry that word's replica and kind name. False: no room.
    bool put(std::uint64_t word) { return put_at(find(word & k_who_mask), word); }

    // The same; returns what stood there, 0 if there was none.
    std::uint64_t exchange(std::uint64_t word) {
      auto* const place = find(word & k_who_mask);
      const auto old = place != nullptr ? *place : 0;
      put_at(place, word);
      return old;
    }
    void erase(std::uint64_t who);

   private:
    friend class residency_table;
    std::uint64_t* find(std::uint64_t who) const {
      if ((record_->first & k_who_mask) == who) return &record_->first;
      return class_field::get(record_->meta) == 0 ? nullptr : find_in_chunk(who);
    }
    std::uint64_t* find_in_chunk(std::uint64_t who) const;
    bool put_at(std::uint64_t* place, std::uint64_t word) {
      if (place == nullptr) {
        if (record_->first != 0) return add(word);
        place = &record_->first;
        add_to(shard_->entries, 1);
      }
      store_word(*place, word);
      return true;
    }
    bool add(std::uint64_t word);
    std::uint64_t* free_word() const;
    locked(residency_table& table, shard& of) : lock_(of.lock), table_(&table), shard_(&of) {}
    void name(record_id id) {
      id_ = id;
      record_ = id != 0 ? &table_->record_at(id) : nullptr;
    }

    std::unique_lock<spin_lock> lock_;
    residency_table* table_ = nullptr;
    shard* shard_ = nullptr;
    record* record_ = nullptr;
    record_id id_ = 0;
  };

  // Fresh records next to each other, for the keys of one chain: they are mostly looked up together, and two
  // share a cache line. For one thread; what is left over goes to the next one.
  class fresh_records final {
   public:
    explicit fresh_records(residency_table& table) : table_(table) {}
    ~fresh_records() {
      if (count_ != 0) table_.keep_spare(next_, count_);
    }
    fresh_records(const fresh_records&) = delete;
    fresh_records& operator=(const fresh_records&) = delete;

   private:
    friend class residency_table;
    residency_table& table_;
    record_id next_ = 0;
    std::uint32_t count_ = 0;
  };

  locked open(const block_key& key);  // existing keys only
  // Marks it recent. `hint` may be what prefetch_record gave.
  locked open_or_create(const block_key& key, std::uint32_t depth, fresh_records& fresh, record_id hint = 0);
  locked open(record_id id);

  // Room for so many keys in all, before they come in the order of their places: a table that grew with them
  // would hold them all in its first part.
  void reserve(std::uint64_t keys);

  // Every key of one shard, under its lock: for the store and for tests.
  template <typename Visit>
  void visit_keys(std::size_t shard, Visit&& visit);

  index_stats stats() const;

 private:
  // What every write needs lies in the first cache line.
  struct alignas(64) shard {
    mutable spin_lock lock;
    std::uint32_t block_bytes = 0;
    std::atomic<std::uint64_t> table = 0;     // offset / 64 in the high half, capacity in the low half
    std::atomic<std::uint64_t> sequence = 0;  // odd while table words move
    std::uint64_t block = 0;                  // what is left of the shard's current block: offset
    std::atomic<std::uint64_t> entries = 0;
    std::atomic<std::uint32_t> keys = 0;
    record_id free_records = 0;                                     // linked by record::high
    std::uint32_t hand = 0;                                         // of the sweep, a table position
    std::array<std::uint32_t, k_chunk_words.size()> free_chunks{};  // by class, linked by the first word
    std::atomic<std::uint64_t> keys_refused = 0;
    std::atomic<std::uint64_t> keys_reclaimed = 0;
  };

  // Counters that are written under the lock and read by stats().
  template <typename Number>
  static void add_to(std::atomic<Number>& counter, std::int64_t count) {
    counter.store(static_cast<Number>(counter.load(std::memory_order_relaxed) + static_cast<Number>(count)),
                  std::memory_order_relaxed);
  }

  static std::size_t shard_of(const block_key& key) { return key.low % k_shards; }
  record& record_at(record_id id) const {
    return *reinterpret_cast<record*>(region_.words(std::uint64_t{id} * sizeof(record)));
  }
  std::uint64_t* chunk_at(std::uint64_t meta) const { return region_.words(chunk_field::get(meta) * 16); }
  static bool has_key(const record& r, const block_key& key) {
    return load_word(r.low) == key.low && load_word(r.high) == key.high;
  }
  record_id find_id(const shard& s, const block_key& key) const;

  record_id create(shard& s, const block_key& key, std::uint32_t depth, fresh_records& fresh);
  bool reserve_slot(shard& s);
  bool grow(shard& s, std::uint32_t capacity);
  static void insert_slot(std::uint64_t* slots, std::uint32_t capacity, std::uint64_t word);
  void erase_slot(shard& s, std::uint32_t position);
  std::uint64_t carve(shard& s, std::uint32_t bytes);
  record_id take_record(shard& s, fresh_records& fresh);
  void take_spare(fresh_records& fresh);
  void keep_spare(record_id first, std::uint32_t count);
  void free_record(shard& s, record_id id);
  std::uint64_t take_chunk(shard& s, std::uint32_t size_class);  // offset / 16; 0: no room
  void free_chunk(shard& s, std::uint64_t chunk, std::uint32_t size_class);
  bool enlarge(shard& s, record& r);
  bool reclaim(shard& s);
  void forget(shard& s, std::uint32_t position);
  bool sweep_record(shard& s, record& r);

  const replica_states& states_;
  memory_region region_;
  std::array<shard, k_shards> shards_;
  std::array<std::atomic<std::uint64_t>, k_spares> spares_{};  // left over: count, first record; 0: none
};

template <typename Visit>
bool residency_table::read(const block_key& key, record_id hint, Visit&& visit) const {
  const shard& s = shards_[shard_of(key)];
  for (int attempt = 0; attempt < k_read_attempts_max; ++attempt) {
    const auto sequence = s.sequence.load(std::memory_order_acquire);
    auto id = hint;
    if (attempt != 0 || id == 0 || !has_key(record_at(id), key)) id = find_id(s, key);
    if (id != 0) {
      const auto& r = record_at(id);
      const auto meta = load_word(r.meta);
      if ((version_field::get(meta) & 1) != 0 || !has_key(r, key)) continue;
      visit(entry_view{.depth = static_cast<std::uint32_t>(depth_field::get(meta)),
                       .first = load_word(r.first),
                       .chunk = chunk_at(meta),
                       .chunk_words = k_chunk_words[class_field::get(meta)]});
      if (recent_field::set(load_word(r.meta), 0) == recent_field::set(meta, 0)) return true;
    } else if ((sequence & 1) == 0 && s.sequence.load(std::memory_order_acquire) == sequence) {
      return false;
    }
  }
  return false;
}

template <typename Visit>
void residency_table::visit_keys(std::size_t index, Visit&& visit) {
  shard& s = shards_[index];
  const std::lock_guard guard(s.lock);
  const auto table = s.table.load(std::memory_order_relaxed);
  const auto* slots = region_.words((table >> 32) * 64);
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(table); ++i) {
    if (slots[i] == 0) continue;
    const auto& r = record_at(static_cast<record_id>(slots[i]));
    visit(block_key{.low = r.low, .high = r.high});
  }
}

}  // namespace weir::prefix_index
