#include <catch2/catch.hpp>

#include "tests/gateway/kv_events/event_payloads.hpp"

namespace weir::gateway::kv_events {
namespace {

using namespace testing;

struct fault_row {
  const char* says;  // part of the error
  bytes payload;
};

bytes nested(int depth) {
  bytes out(static_cast<std::size_t>(depth), 0x91);
  out.push_back(0xc0);
  return out;
}

bytes unknown_event_holding(const bytes& value) {
  bytes out = {0x93, 0x01, 0x91, 0x92, 0xa1, 'X'};
  out.insert(out.end(), value.begin(), value.end());
  out.push_back(0xc0);
  return out;
}

std::vector<fault_row> faults() {
  const auto with = [](const json& changes) { return packed_event(observed_with(changes)); };
  auto behind = packed_event(k_observed);
  behind.push_back(0xc0);
  bytes many_events = {0x92, 0x01, 0xdd, 0x00, 0x01, 0x00, 0x01};
  many_events.insert(many_events.end(), 0x10001, 0xc0);
  bytes many_hashes = {0x92, 0x01, 0x91, 0x92, 0xac};
  for (const char c : std::string("BlockRemoved")) many_hashes.push_back(static_cast<std::uint8_t>(c));
  many_hashes.insert(many_hashes.end(), {0xdd, 0x00, 0x10, 0x00, 0x01});
  many_hashes.insert(many_hashes.end(), 0x100001, 0x01);
  return {
      {"end within an item", {}},
      {"end within an item", {0x92, 0xcb, 0x00}},
      {"never uses", {0xc1}},
      {"count goes beyond", {0xdd, 0xff, 0xff, 0xff, 0xff}},
      {"count goes beyond", {0xdf, 0x00, 0x00, 0x00, 0x01, 0xa1}},
      {"length goes beyond", {0x82, 0xdb, 0xff, 0xff, 0xff, 0xff, 0x00, 0x00}},
      {"neither a map nor an array", packed("text")},
      {"bytes behind the batch", behind},
      {"no events", packed(json::array({1.5}))},
      {"no events", packed({{"ts", 1}})},
      {"events twice",
       {0x82, 0xa6, 'e', 'v', 'e', 'n', 't', 's', 0x90, 0xa6, 'e', 'v', 'e', 'n', 't', 's', 0x90}},
      {"key of the batch", {0x81, 0x01, 0x02}},
      {"time is no number", packed(json::array({"now", json::array()}))},
      {"events are no array", packed(json::array({1, 2}))},
      {"rank is no small number", packed(json::array({1, json::array(), -1}))},
      {"rank is no small number", packed(json::array({1, json::array(), 1 << 20}))},
      {"too many events", many_events},
      {"event 0: block_hashes: too many hashes", many_hashes},
      {"nested too deep", unknown_event_holding(nested(40))},
      {"event 0: neither", packed_event(7)},
      {"event 0: an empty array", packed_event(json::array())},
      {"event 0: no type", packed_event({{"block_hashes", {1}}})},
      {"event 0: type: no string", packed_event({1, 2})},
      {"event 0: no block_hashes", packed_event(json::array({"BlockStored"}))},
      {"event 0: block_hashes: no array", with({{"block_hashes", nullptr}})},
      {"block_hashes: a hash is neither", with({{"block_hashes", {1.5}}})},
      {"block_hashes: a hash is neither", with({{"block_hashes", {nullptr, 1}}})},
      {"block_hashes: a hash of no or too many", with({{"block_hashes", {json::binary({})}}})},
      {"block_hashes: a hash of no or too many",
       with({{"block_hashes", {json::binary(std::vector<std::uint8_t>(65))}}})},
      {"parent_block_hash: a hash is neither", with({{"parent_block_hash", "x"}})},
      {"token_ids: an integer out of range", with({{"token_ids", {-1, 2}}})},
      {"token_ids: an integer out of range", with({{"token_ids", {0x80000000U, 2}}})},
      {"token_ids: no integer", with({{"token_ids", {1.0, 2}}})},
      {"token_ids: an entry that is neither", with({{"token_ids", {{1, 2, 3}}}})},
      {"token_ids: a pair of other things", with({{"token_ids", {{1, "x"}}}})},
      {"token_ids: no integer", with({{"token_ids", {{{1, 2}, 2}}}})},
      {"block_size: an integer out of range", with({{"block_size", -1}})},
      {"block_size: an integer out of range", with({{"block_size", 0xffffffffffffffffULL}})},
      {"block_size: 0, yet there are tokens", with({{"block_size", 0}})},
      {"medium: no string", with({{"medium", 1}})},
      {"lora_name: too long", with({{"lora_name", std::string(1025, 'x')}})},
      {"group_idx: an integer out of range", with({{"group_idx", -1}})},
      {"extra_keys: too long", with({{"extra_keys", {{std::string(1025, 'x')}}}})},
      {"extra_keys: no array", with({{"extra_keys", "x"}})},
      {"lora_name: a key is no string",
       {0x92, 0x01, 0x91, 0x98, 0xab, 'B',  'l',  'o',  'c',  'k',  'S',  't',  'o', 'r',
        'e',  'd',  0x91, 0x01, 0xc0, 0x91, 0x01, 0x01, 0xc0, 0xc0, 0x81, 0x01, 0x01}},
  };
}

TEST_CASE("what breaks the form of events is named") {
  for (const auto& row : faults()) {
    const auto decoded = decode(row.payload);
    INFO(row.says);
    REQUIRE_FALSE(decoded);
    CHECK_THAT(decoded.error(), Catch::Matchers::Contains(row.says));
  }
  const bytes huge(k_payload_bytes_max + 1);
  CHECK_THAT(decode(huge).error(), Catch::Matchers::Contains("too many bytes"));
}

}  // namespace
}  // namespace weir::gateway::kv_events
