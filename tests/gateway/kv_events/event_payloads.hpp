// Payloads of KV events, made with another MessagePack writer than ours could be.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gateway/kv_events/decoder.hpp"

namespace weir::gateway::kv_events::testing {

namespace index = prefix_index;
using json = nlohmann::json;
using bytes = std::vector<std::uint8_t>;

inline std::expected<decoded_batch, std::string> decode(const bytes& payload) {
  return decode_batch(std::as_bytes(std::span(payload)));
}

inline bytes packed(const json& value) {
  return json::to_msgpack(value);
}

inline bytes packed_event(const json& event) {
  return packed(json::array({1.5, json::array({event}), 0}));
}

inline json digest(std::uint8_t last) {
  std::vector<std::uint8_t> out(32, 0xab);
  for (std::size_t i = 24; i < 31; ++i) out[i] = 0;
  out[31] = last;
  return json::binary(out);
}

inline const json k_four = {1, 2, 3, 4};
inline const json k_observed = {{"type", "BlockStored"},
                                {"block_hashes", {0xf000000000000001ULL, 2}},
                                {"parent_block_hash", nullptr},
                                {"token_ids", k_four},
                                {"block_size", 2},
                                {"lora_id", nullptr},
                                {"medium", "GPU"},
                                {"lora_name", nullptr},
                                {"extra_keys", {nullptr, nullptr}},
                                {"group_idx", 0},
                                {"kv_cache_spec_kind", "full_attention"}};

inline json observed_with(const json& changes) {
  auto out = k_observed;
  out.update(changes);
  return out;
}

}  // namespace weir::gateway::kv_events::testing
