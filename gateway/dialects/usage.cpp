#include "gateway/dialects/usage.hpp"

#include <algorithm>

#include "gateway/dialects/source_json.hpp"

namespace weir::gateway::dialects {

using simdjson::dom::object;

std::int64_t usage_parts::prompt() const noexcept {
  return fresh + std::max<std::int64_t>(cache_read, 0) + std::max<std::int64_t>(cache_write, 0);
}

api::token_usage usage_parts::counts() const noexcept {
  return {.prompt_tokens = prompt(),
          .completion_tokens = output,
          .cached_tokens = cache_read,
          .cache_write_tokens = cache_write};
}

void read_messages_usage(object usage, usage_parts& out) {
  out.fresh = count_in(usage, "input_tokens", out.fresh);
  out.cache_read = count_in(usage, "cache_read_input_tokens", out.cache_read);
  out.cache_write = count_in(usage, "cache_creation_input_tokens", out.cache_write);
  out.output = count_in(usage, "output_tokens", out.output);
  object details;
  if (!usage.at_key("output_tokens_details").get(details)) {
    out.thinking = count_in(details, "thinking_tokens", out.thinking);
  }
}

usage_parts read_chat_usage(object usage) {
  usage_parts out;
  out.cache_read = count_in(usage, "cached_tokens", -1);  // Moonshot's place
  out.output = count_in(usage, "completion_tokens", 0);
  object details;
  if (!usage.at_key("prompt_tokens_details").get(details)) {
    out.cache_read = count_in(details, "cached_tokens", out.cache_read);
    out.cache_write = count_in(details, "cache_write_tokens", -1);
  }
  if (!usage.at_key("completion_tokens_details").get(details)) {
    out.thinking = count_in(details, "reasoning_tokens", -1);
  }
  out.fresh = std::max<std::int64_t>(count_in(usage, "prompt_tokens", 0) - out.prompt(), 0);
  return out;
}

void write_chat_usage(json_writer& out, const usage_parts& usage) {
  out.open('{').key("prompt_tokens").number(usage.prompt()).key("completion_tokens").number(usage.output);
  out.key("total_tokens").number(usage.prompt() + usage.output);
  if (usage.cache_read >= 0 || usage.cache_write >= 0) {
    out.key("prompt_tokens_details").open('{');
    if (usage.cache_read >= 0) out.key("cached_tokens").number(usage.cache_read);
    if (usage.cache_write >= 0) out.key("cache_write_tokens").number(usage.cache_write);
    out.close('}');
  }
  if (usage.thinking >= 0) {
    out.key("completion_tokens_details").open('{').key("reasoning_tokens").number(usage.thinking).close('}');
  }
  out.close('}');
}

void write_messages_usage(json_writer& out, const usage_parts& usage) {
  out.open('{').key("input_tokens").number(usage.fresh);
  out.key("cache_creation_input_tokens").number(std::max<std::int64_t>(usage.cache_write, 0));
  out.key("cache_read_input_tokens").number(std::max<std::int64_t>(usage.cache_read, 0));
  out.key("output_tokens").number(usage.output);
  if (usage.thinking >= 0) {
    out.key("output_tokens_details").open('{').key("thinking_tokens").number(usage.thinking).close('}');
  }
  out.close('}');
}

}  // namespace weir::gateway::dialects
