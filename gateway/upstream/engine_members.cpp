#include "gateway/upstream/engine_members.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>

#include "engine/engine.hpp"
#include "engine/sample/least_length.hpp"

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

engine::sampling_params sampling_of(const api::generation_options& o,
                                    const engine::model::generation_config& defaults) {
  engine::sampling_params s;
  s.temperature = o.temperature.value_or(defaults.temperature);
  // OpenAI allows 0: the likeliest token alone.
  s.top_p = std::max(o.top_p.value_or(defaults.top_p), 1e-6F);
  s.top_k = static_cast<std::int32_t>(std::max<std::int64_t>(o.top_k.value_or(defaults.top_k), 0));
  s.min_p = o.min_p;
  s.presence_penalty = o.presence_penalty;
  s.frequency_penalty = o.frequency_penalty;
  s.logit_bias = o.logit_bias;
  s.top_logprobs = o.top_logprobs;
  return s;
}

std::shared_ptr<const engine::token_constraint> bound_of(const api::generation_options& o,
                                                         std::shared_ptr<const engine::token_constraint> form,
                                                         std::int32_t vocab_size) {
  if (form || (!o.ignore_eos && o.min_tokens == 0)) return form;
  const auto least = o.ignore_eos ? std::numeric_limits<std::int64_t>::max() : o.min_tokens;
  return engine::sample::least_length(least, vocab_size);
}

}  // namespace weir::gateway::upstream
