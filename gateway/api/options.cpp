#include "gateway/api/options.hpp"

#include <fmt/format.h>

#include <charconv>
#include <limits>

namespace weir::gateway::api {

namespace {

constexpr std::int64_t k_positions_max = (1LL << 31) - 1;

void read_stop(field_reader& in, std::vector<std::string>& out) {
  const auto value = in.find("stop");
  if (!value) return;
  const auto add = [&](std::string_view text) {
    if (text.size() > k_stop_bytes_max || text.empty()) {
      in.fail("stop", fmt::format("strings must have 1 to {} bytes", k_stop_bytes_max));
    } else {
      out.emplace_back(text);
    }
  };
  std::string_view one;
  simdjson::dom::array many;
  if (!value->get(one)) return add(one);
  if (value->get(many)) return in.fail("stop", "must be a string or an array of strings");
  if (many.size() > k_stops_max)
    return in.fail("stop", fmt::format("may hold at most {} strings", k_stops_max));
  for (const auto entry : many) {
    std::string_view text;
    if (entry.get(text)) return in.fail("stop", "must be a string or an array of strings");
    add(text);
  }
}

void read_logit_bias(field_reader& in, std::vector<std::pair<std::int32_t, float>>& out) {
  const auto map = in.object("logit_bias");
  if (!map) return;
  if (map->size() > k_logit_bias_max) {
    return in.fail("logit_bias", fmt::format("may hold at most {} entries", k_logit_bias_max));
  }
  for (const auto field : *map) {
    std::int64_t token = 0;
    double bias = 0;
    const char* const end = field.key.data() + field.key.size();
    const auto [stop, ec] = std::from_chars(field.key.data(), end, token);
    if (ec != std::errc() || stop != end || token < 0 || token > k_token_id_max || field.value.get(bias) ||
        !(bias >= -100 && bias <= 100)) {
      return in.fail("logit_bias", "must map token ids to numbers from -100 to 100");
    }
    out.emplace_back(static_cast<std::int32_t>(token), static_cast<float>(bias));
  }
}

void read_checkpoint_hints(field_reader& in, std::vector<std::int32_t>& out) {
  constexpr std::string_view k_key = "weir_checkpoint_at";
  const auto list = in.array(k_key);
  if (!list) return;
  if (list->size() > k_checkpoint_hints_max) {
    return in.fail(k_key, fmt::format("may hold at most {} positions", k_checkpoint_hints_max));
  }
  for (const auto entry : *list) {
    std::int64_t position = 0;
    if (entry.get(position) || position < 1 || position > k_positions_max) {
      return in.fail(k_key, fmt::format("must hold numbers of tokens from 1 to {}", k_positions_max));
    }
    out.push_back(static_cast<std::int32_t>(position));
  }
}

// vLLM's members, as far as the engine has what they ask for.
void read_extras(field_reader& in, generation_options& out) {
  in.flag("ignore_eos", out.ignore_eos);
  std::optional<std::int64_t> least;
  in.integer("min_tokens", least, {0, k_output_tokens_max});
  out.min_tokens = least.value_or(0);
  if (in.ok() && out.max_tokens && out.min_tokens > *out.max_tokens)
    in.fail("min_tokens", fmt::format("must not be above max_tokens, {}", *out.max_tokens));
  std::optional<float> repetition;
  in.number("repetition_penalty", repetition, {0, 2});
  if (in.ok() && repetition && *repetition != 1) {
    in.fail("repetition_penalty",
            "other than 1 is not built into the embedded engine; use frequency_penalty or presence_penalty");
  }
}

}  // namespace

void read_generation_options(field_reader& in, generation_options& out) {
  in.text("model", out.model);
  if (in.ok() && out.model.empty()) in.fail("model", "is required: the name of a model from GET /v1/models");
  in.flag("stream", out.stream);
  if (const auto options = in.object("stream_options")) {
    field_reader inner(*options, "stream_options");
    inner.flag("include_usage", out.include_usage);
    in.adopt(inner);
  }
  std::optional<std::int64_t> n;
  in.integer("n", n, {1, k_choices_max});
  out.n = n.value_or(1);
  in.integer("max_tokens", out.max_tokens, {1, k_output_tokens_max});
  in.integer("max_completion_tokens", out.max_tokens, {1, k_output_tokens_max});
  read_extras(in, out);
  in.number("temperature", out.temperature, {0, 2});
  in.number("top_p", out.top_p, {0, 1});
  in.integer("top_k", out.top_k, {-1, k_token_id_max});
  std::optional<float> min_p;
  std::optional<float> presence;
  std::optional<float> frequency;
  in.number("min_p", min_p, {0, 1});
  in.number("presence_penalty", presence, {-2, 2});
  in.number("frequency_penalty", frequency, {-2, 2});
  out.min_p = min_p.value_or(0);
  out.presence_penalty = presence.value_or(0);
  out.frequency_penalty = frequency.value_or(0);
  constexpr auto k_any = std::numeric_limits<std::int64_t>::max();
  in.integer("seed", out.seed, {-k_any - 1, k_any});
  read_logit_bias(in, out.logit_bias);
  read_stop(in, out.stop);
  read_checkpoint_hints(in, out.checkpoint_at);
}

}  // namespace weir::gateway::api
