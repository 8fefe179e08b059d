#include "gateway/upstream/engine_members.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "engine/engine.hpp"
#include "gateway/api/options.hpp"

namespace weir::gateway::upstream {

namespace {

static_assert(api::k_checkpoint_hints_max == engine::k_checkpoint_hints_max);

// The gateway wrote the list itself: an array of counts.
std::vector<std::int32_t> counts_of(std::string_view json) {
  std::vector<std::int32_t> out;
  const char* at = json.data();
  const char* const end = at + json.size();
  while (at < end && out.size() < engine::k_checkpoint_hints_max) {
    std::int32_t count = 0;
    const auto [after, failed] = std::from_chars(at, end, count);
    if (failed == std::errc()) out.push_back(count);
    at = after > at ? after : at + 1;  // past a number, in range or not
  }
  return out;
}

}  // namespace

engine_members read_engine_members(std::span<const api::body_member> members) {
  engine_members out;
  for (const auto& member : members) {
    const std::string_view json = member.json;
    if (member.key == "cache_salt" && json.size() >= 2) out.scope = json.substr(1, json.size() - 2);
    if (member.key == "weir_checkpoint_at") out.checkpoint_at = counts_of(json);
  }
  return out;
}

std::vector<std::int32_t> hints_of(const engine_members& terms, std::span<const std::int32_t> asked) {
  std::vector<std::int32_t> out = terms.checkpoint_at;
  const auto taken = asked.first(std::min(asked.size(), engine::k_checkpoint_hints_max - out.size()));
  out.insert(out.end(), taken.begin(), taken.end());
  return out;
}

}  // namespace weir::gateway::upstream
