// One fact about one key in one 64-bit word, so that readers see it whole: who (replica), what (pages or a
// checkpoint, simulated or by events) and whether it still counts. Internal to the folder.
//
//   bits 0-9 replica, 10-12 kind (0: no entry), 13-14 confidence - 1, 15 doubted, 16-17 medium (simulated
//   kinds) simulated: 24-63 stamp.  events: 18-25 / 26-31 / 32-37 copies on device / host / storage, 38-63
//   epoch summaries: 32-63 a bit per boundary (near) or per 32 boundaries (far) below this key
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "prefix_index/kv_event.hpp"
#include "prefix_index/residency_index.hpp"

namespace weir::prefix_index {

enum class entry_kind : std::uint8_t {
  none,
  model_pages,
  model_checkpoint,
  event_pages,
  event_checkpoint,
  near_summary,  // at the first unit of 32: which of them may end in a checkpoint, on any branch
  far_summary,   // at the first unit of 1024: which 32s may hold one
};

inline constexpr std::uint64_t k_stamp_max = (std::uint64_t{1} << 40) - 1;
inline constexpr std::uint64_t k_epoch_mask = (std::uint64_t{1} << 26) - 1;

// A field of a word.
template <unsigned Shift, unsigned Bits>
struct word_field {
  static constexpr std::uint64_t k_max = (std::uint64_t{1} << Bits) - 1;
  static constexpr std::uint64_t get(std::uint64_t word) { return word >> Shift & k_max; }
  static constexpr std::uint64_t set(std::uint64_t word, std::uint64_t value) {
    return (word & ~(k_max << Shift)) | (value & k_max) << Shift;
  }
};
using replica_field = word_field<0, 10>;
using kind_field = word_field<10, 3>;
using confidence_field = word_field<13, 2>;
using doubt_field = word_field<15, 1>;
using medium_field = word_field<16, 2>;
using stamp_field = word_field<24, 40>;
using epoch_field = word_field<38, 26>;
using summary_field = word_field<32, 32>;
using device_copies_field = word_field<18, 8>;
using host_copies_field = word_field<26, 6>;
using storage_copies_field = word_field<32, 6>;

inline constexpr std::uint64_t k_who_mask = 0x1FFF;  // replica and kind

constexpr std::uint64_t who(entry_kind kind, replica_id replica) {
  return kind_field::set(replica, static_cast<std::uint64_t>(kind));
}

constexpr entry_kind kind_of(std::uint64_t word) {
  return static_cast<entry_kind>(kind_field::get(word));
}

constexpr bool is_summary(std::uint64_t word) {
  return kind_of(word) >= entry_kind::near_summary;
}

constexpr bool is_model(std::uint64_t word) {
  return kind_of(word) == entry_kind::model_pages || kind_of(word) == entry_kind::model_checkpoint;
}

constexpr confidence confidence_of(std::uint64_t word) {
  return static_cast<confidence>(confidence_field::get(word) + 1);
}

constexpr std::uint64_t with_confidence(std::uint64_t word, confidence from) {
  return confidence_field::set(word, static_cast<std::uint64_t>(from) - 1);
}

constexpr std::uint64_t copies_max(kv_medium medium) {
  return medium == kv_medium::device ? device_copies_field::k_max
         : medium == kv_medium::host ? host_copies_field::k_max
                                     : storage_copies_field::k_max;
}

// Copies per medium of an event entry, saturating: what may have been more is never counted down, since names
// of a record must not outlive it. A removal beyond zero stays at zero.
constexpr std::uint64_t copies_of(std::uint64_t word, kv_medium medium) {
  switch (medium) {
    case kv_medium::device:
      return device_copies_field::get(word);
    case kv_medium::host:
      return host_copies_field::get(word);
    case kv_medium::storage:
      return storage_copies_field::get(word);
  }
  return 0;
}

constexpr std::uint64_t copies_of(std::uint64_t word) {
  return copies_of(word, kv_medium::device) + copies_of(word, kv_medium::host) +
         copies_of(word, kv_medium::storage);
}

constexpr std::uint64_t with_copies(std::uint64_t word, kv_medium medium, std::uint64_t copies) {
  const auto most = std::min(copies, copies_max(medium));
  switch (medium) {
    case kv_medium::device:
      return device_copies_field::set(word, most);
    case kv_medium::host:
      return host_copies_field::set(word, most);
    case kv_medium::storage:
      return storage_copies_field::set(word, most);
  }
  return word;
}

constexpr bool has_copies(std::uint64_t word) {
  return (word >> 18 & 0xFFFFF) != 0;
}

constexpr kv_medium medium_of(std::uint64_t word) {
  if (is_model(word)) return static_cast<kv_medium>(medium_field::get(word));
  if (copies_of(word, kv_medium::device) != 0) return kv_medium::device;
  return copies_of(word, kv_medium::host) != 0 ? kv_medium::host : kv_medium::storage;
}

// The age of a simulated entry: greater is younger. Within one dispatch pages are older than checkpoints and
// deeper ones older than shallower ones.
constexpr std::uint64_t age_order(std::uint64_t stamp, bool checkpoint, std::uint32_t depth) {
  return stamp << 24 | (checkpoint ? std::uint64_t{1} << 23 : 0) | (0x7FFFFF - std::uint64_t{depth});
}

constexpr std::uint64_t age_order_of(std::uint64_t word, std::uint32_t depth) {
  return age_order(stamp_field::get(word), kind_of(word) == entry_kind::model_checkpoint, depth);
}

// What decides over all entries of one replica at once.
struct alignas(64) replica_state {
  std::atomic<std::uint64_t> horizon = 0;     // simulated entries at or below it are gone
  std::atomic<std::uint64_t> last_stamp = 0;  // the newest dispatch
  std::atomic<std::uint64_t> epoch = 1;       // event entries of other epochs are gone
  std::atomic<bool> has_spoken = false;       // by an event, since the index was made
  std::atomic<std::uint8_t> pages = 0;        // evidence
  std::atomic<std::uint8_t> checkpoints = 0;  // evidence
};

using replica_states = std::array<replica_state, k_replicas_max>;

// Whether the word still says something, whatever evidence its replica counts.
inline bool is_live(std::uint64_t word, std::uint32_t depth, const replica_states& states) {
  if (word == 0) return false;
  if (is_summary(word)) return true;
  const auto& state = states[replica_field::get(word)];
  if (is_model(word)) return age_order_of(word, depth) > state.horizon.load(std::memory_order_acquire);
  return epoch_field::get(word) == (state.epoch.load(std::memory_order_acquire) & k_epoch_mask);
}

}  // namespace weir::prefix_index
