// The bytes of the store: see FORMAT.md. Pure functions; every decoder takes untrusted bytes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "prefix_index/block_key.hpp"

namespace weir::prefix_index {

inline constexpr std::string_view k_format_key{"\x00version", 8};
inline constexpr std::string_view k_format_value = "weir prefix index 1";
inline constexpr char k_replica_prefix = '\x01';
inline constexpr char k_record_prefix = '\x02';
inline constexpr std::size_t k_record_key_bytes = 17;
inline constexpr std::size_t k_stored_entries_max = 4608;

enum class stored_kind : std::uint8_t {
  model_pages = 1,  // the numbers are entry_kind's
  model_checkpoint = 2,
  event_pages = 3,
  event_checkpoint = 4,
  near_summary = 5,
  far_summary = 6,
};

struct stored_word {
  std::uint16_t slot = 0;  // of the replica; 0 for summaries
  stored_kind kind = stored_kind::model_pages;
  std::uint8_t medium = 0;   // 0 device, 1 host, 2 storage
  std::uint64_t number = 0;  // 40 bits: stamp, epoch or summary bits
};

struct stored_record {
  std::uint32_t depth = 0;
  std::vector<stored_word> words;
};

// What is known of a replica as a whole.
struct stored_replica_state {
  std::uint16_t slot = 0;
  std::uint64_t horizon = 0;
  std::uint64_t last_stamp = 0;
  std::uint64_t epoch = 0;
};

// Ordered as the table is in memory, so that a load fills it front to back.
std::array<char, k_record_key_bytes> encode_record_key(const block_key& key);
std::optional<block_key> decode_record_key(std::string_view bytes);

void encode_record(const stored_record& record, std::string& out);
bool decode_record(std::string_view bytes, stored_record& out);

std::string encode_replica_state(const stored_replica_state& state);
std::optional<stored_replica_state> decode_replica_state(std::string_view bytes);

}  // namespace weir::prefix_index
