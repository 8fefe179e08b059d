#include "gateway/api/completion_types.hpp"

#include <fmt/format.h>

namespace weir::gateway::api {

namespace {

constexpr std::string_view k_prompt_shape =
    "must be a string, an array of strings, of token ids or of token id arrays";

bool read_ids(simdjson::dom::array array, std::vector<std::int32_t>& out) {
  if (array.size() > k_prompt_tokens_max) return false;
  for (const auto entry : array) {
    std::int64_t id = 0;
    if (entry.get(id) || id < 0 || id > k_token_id_max) return false;
    out.push_back(static_cast<std::int32_t>(id));
  }
  return true;
}

void read_prompt_list(field_reader& in, simdjson::dom::array array, std::vector<completion_prompt>& out) {
  const auto first = *array.begin();
  if (first.type() == simdjson::dom::element_type::INT64) {
    std::vector<std::int32_t> ids;
    if (!read_ids(array, ids)) return in.fail("prompt", std::string(k_prompt_shape));
    out.emplace_back(std::move(ids));
    return;
  }
  for (const auto entry : array) {
    std::string_view text;
    simdjson::dom::array inner;
    std::vector<std::int32_t> ids;
    if (!entry.get(text)) {
      out.emplace_back(std::string(text));
    } else if (!entry.get(inner) && read_ids(inner, ids)) {
      out.emplace_back(std::move(ids));
    } else {
      return in.fail("prompt", std::string(k_prompt_shape));
    }
    if (out.size() > static_cast<std::size_t>(k_choices_max)) {
      return in.fail("prompt", fmt::format("may hold at most {} prompts", k_choices_max));
    }
  }
}

void read_prompts(field_reader& in, std::vector<completion_prompt>& out) {
  const auto value = in.find("prompt");
  if (!value) return in.fail("prompt", "is required");
  std::string_view text;
  simdjson::dom::array array;
  if (!value->get(text)) {
    out.emplace_back(std::string(text));
    return;
  }
  if (value->get(array) || array.size() == 0) return in.fail("prompt", std::string(k_prompt_shape));
  read_prompt_list(in, array, out);
}

void read_unsupported(field_reader& in, const completion_request& out) {
  std::string suffix;
  in.text("suffix", suffix);
  if (!suffix.empty()) in.fail("suffix", "is not supported");
  std::optional<std::int64_t> best_of;
  in.integer("best_of", best_of, {0, 20});
  if (best_of.value_or(0) > out.options.n) in.fail("best_of", "above 'n' is not supported");
  if (out.echo && out.options.top_logprobs >= 0) in.fail("echo", "together with 'logprobs' is not supported");
}

}  // namespace

result<completion_request> parse_completion_request(const std::string& body) {
  const auto document = json_document::parse(body);
  if (!document) return std::unexpected(document.error());
  completion_request out;
  field_reader in(document->root());
  read_generation_options(in, out.options);
  if (!out.options.max_tokens) out.options.max_tokens = k_completion_tokens_default;
  read_prompts(in, out.prompts);
  in.flag("echo", out.echo);
  std::optional<std::int64_t> logprobs;
  in.integer("logprobs", logprobs, {0, 5});
  if (logprobs) out.options.top_logprobs = static_cast<int>(*logprobs);
  read_unsupported(in, out);
  if (in.ok() && static_cast<std::int64_t>(out.prompts.size()) * out.options.n > k_choices_max) {
    in.fail("n", fmt::format("times the number of prompts may be at most {}", k_choices_max));
  }
  if (!in.ok()) return std::unexpected(*in.first_error());
  return out;
}

}  // namespace weir::gateway::api
