// A decoded batch keeps what the index counts on: pages have whole blocks of tokens, and nothing is larger
// than the bytes that it came from.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "gateway/kv_events/decoder.hpp"

using namespace weir;

namespace {

void check(const prefix_index::kv_stored& event, std::size_t size) {
  if (event.hashes.empty() || event.hashes.size() > size || event.tokens.size() > size) std::abort();
  const bool is_page = event.group == prefix_index::kv_group::pages;
  if (is_page && !event.tokens.empty() && event.tokens.size() != event.hashes.size() * event.block_tokens)
    std::abort();
  for (const auto token : event.tokens)
    if (token < 0) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto decoded = gateway::kv_events::decode_batch(std::as_bytes(std::span(data, size)));
  if (!decoded) {
    if (decoded.error().empty()) std::abort();
    return 0;
  }
  if (decoded->batch.events.size() + decoded->skipped.total() > size) std::abort();
  for (const auto& event : decoded->batch.events)
    if (const auto* stored = std::get_if<prefix_index::kv_stored>(&event)) check(*stored, size);
  return 0;
}
