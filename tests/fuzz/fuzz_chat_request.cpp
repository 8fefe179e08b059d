// Arbitrary bytes as the body of both generating endpoints: parsing ends, an error has a message, and what is
// accepted keeps the limits that everything below relies on. The gateway's own lenient reading of the same
// bytes keeps them as they came.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "gateway/api/chat_types.hpp"
#include "gateway/api/completion_types.hpp"
#include "gateway/api/generation_call.hpp"
#include "gateway/api/json.hpp"

using namespace weir::gateway;

namespace {

bool within(const std::optional<float>& value, float min, float max) {
  return !value || (*value >= min && *value <= max);
}

bool sane(const api::generation_options& o) {
  for (const auto& stop : o.stop) {
    if (stop.empty() || stop.size() > api::k_stop_bytes_max) return false;
  }
  for (const auto& [token, bias] : o.logit_bias) {
    if (token < 0 || !within(bias, -100, 100)) return false;
  }
  for (const auto position : o.checkpoint_at) {
    if (position < 1) return false;
  }
  return o.checkpoint_at.size() <= api::k_checkpoint_hints_max && !o.model.empty() && o.n >= 1 &&
         o.n <= api::k_choices_max && o.stop.size() <= api::k_stops_max &&
         o.logit_bias.size() <= api::k_logit_bias_max && o.max_tokens.value_or(1) >= 1 &&
         o.max_tokens.value_or(1) <= api::k_output_tokens_max && within(o.temperature, 0, 2) &&
         within(o.top_p, 0, 1) && within(o.min_p, 0, 1) && within(o.presence_penalty, -2, 2) &&
         within(o.frequency_penalty, -2, 2) && o.top_k.value_or(0) >= -1 &&
         o.top_k.value_or(0) <= api::k_token_id_max && o.top_logprobs >= -1 && o.top_logprobs <= 20;
}

template <class T>
bool explained(const result<T>& parsed) {
  return parsed || !parsed.error().message.empty();
}

// Only whole numbers of the text change, each to 0 and spaces, and once is enough.
bool tamed_well(const std::string& text) {
  std::string tamed = text;
  const bool any = api::tame_numbers(tamed);
  if (tamed.size() != text.size() || any != (tamed != text)) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (tamed[i] != text[i] && std::string_view("+-.0123456789eE").find(text[i]) == std::string_view::npos) {
      return false;
    }
  }
  if (api::json_document::parse(text) && !api::json_document::parse(tamed)) return false;
  return !api::tame_numbers(tamed);
}

bool kept(const result<api::generation_call>& call, const std::string& body) {
  return !call || (call->body == body && !call->model.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string body(reinterpret_cast<const char*>(data), size);
  const auto chat = api::parse_chat_request(body);
  const auto completion = api::parse_completion_request(body);
  const auto call = api::read_generation_call(api::generation_kind::chat, body);
  if (!explained(chat) || !explained(completion) || !explained(call)) std::abort();
  if (!kept(call, body) || !tamed_well(body)) std::abort();
  if (chat && (!sane(chat->options) || chat->prompt.messages.empty())) std::abort();
  if (completion) {
    const auto choices = static_cast<std::int64_t>(completion->prompts.size()) * completion->options.n;
    if (!sane(completion->options) || choices < 1 || choices > api::k_choices_max) std::abort();
  }
  return 0;
}
