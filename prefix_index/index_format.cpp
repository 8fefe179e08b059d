#include "prefix_index/index_format.hpp"

#include <bit>
#include <cstring>

#include "prefix_index/residency_index.hpp"

namespace weir::prefix_index {

namespace {

static_assert(std::endian::native == std::endian::little, "numbers are stored little-endian");

constexpr std::size_t k_word_bytes = 8;
constexpr std::size_t k_replica_state_bytes = 26;
constexpr std::uint64_t k_number_max = (std::uint64_t{1} << 40) - 1;

// Byte i of a record key is byte k_low_order[i - 1] of the key's low half: first the one that names the
// shard, then the four that name the place in its table, the highest first.
constexpr std::array<int, 8> k_low_order{0, 7, 6, 5, 4, 3, 2, 1};

}  // namespace

std::array<char, k_record_key_bytes> encode_record_key(const block_key& key) {
  std::array<char, k_record_key_bytes> out{k_record_prefix};
  for (std::size_t i = 0; i < 8; ++i) out[1 + i] = static_cast<char>(key.low >> (8 * k_low_order[i]));
  std::memcpy(out.data() + 9, &key.high, sizeof key.high);
  return out;
}

std::optional<block_key> decode_record_key(std::string_view bytes) {
  if (bytes.size() != k_record_key_bytes || bytes[0] != k_record_prefix) return std::nullopt;
  block_key key;
  for (std::size_t i = 0; i < 8; ++i) {
    key.low |= std::uint64_t{static_cast<std::uint8_t>(bytes[1 + i])} << (8 * k_low_order[i]);
  }
  std::memcpy(&key.high, bytes.data() + 9, sizeof key.high);
  return key;
}

void encode_record(const stored_record& record, std::string& out) {
  out.clear();
  out.append(reinterpret_cast<const char*>(&record.depth), sizeof record.depth);
  for (const auto& w : record.words) {
    const auto what = static_cast<std::uint8_t>(static_cast<std::uint8_t>(w.kind) | w.medium << 4);
    const std::uint64_t word = std::uint64_t{w.slot} | std::uint64_t{what} << 16 | w.number << 24;
    out.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
}

bool decode_record(std::string_view bytes, stored_record& out) {
  out.words.clear();
  if (bytes.size() < sizeof out.depth || (bytes.size() - sizeof out.depth) % k_word_bytes != 0) return false;
  std::memcpy(&out.depth, bytes.data(), sizeof out.depth);
  bytes.remove_prefix(sizeof out.depth);
  if (out.depth >= k_chain_units_max || bytes.size() / k_word_bytes > k_stored_entries_max) return false;
  for (; !bytes.empty(); bytes.remove_prefix(k_word_bytes)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    const auto kind = word >> 16 & 0xF;
    const auto medium = word >> 20 & 0xF;
    if (kind < 1 || kind > 6 || medium > 2) return false;
    out.words.push_back({.slot = static_cast<std::uint16_t>(word),
                         .kind = static_cast<stored_kind>(kind),
                         .medium = static_cast<std::uint8_t>(medium),
                         .number = word >> 24});
  }
  return true;
}

std::string encode_replica_state(const stored_replica_state& state) {
  std::string out;
  out.append(reinterpret_cast<const char*>(&state.slot), sizeof state.slot);
  for (const auto number : {state.horizon, state.last_stamp, state.epoch}) {
    out.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  return out;
}

std::optional<stored_replica_state> decode_replica_state(std::string_view bytes) {
  if (bytes.size() != k_replica_state_bytes) return std::nullopt;
  stored_replica_state state;
  std::memcpy(&state.slot, bytes.data(), 2);
  std::memcpy(&state.horizon, bytes.data() + 2, 8);
  std::memcpy(&state.last_stamp, bytes.data() + 10, 8);
  std::memcpy(&state.epoch, bytes.data() + 18, 8);
  if (state.slot == 0 || state.last_stamp > k_number_max / 2 || state.epoch == 0) return std::nullopt;
  return state;
}

}  // namespace weir::prefix_index
