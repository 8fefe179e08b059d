#include "gateway/api/generation_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "gateway/api/json.hpp"

namespace weir::gateway::api {

namespace {

using simdjson::dom::element;
using simdjson::dom::object;

constexpr std::int64_t k_count_max = std::int64_t{1} << 31;  // nobody means more; products stay in range

bool holds_image(object message) {
  simdjson::dom::array parts;
  if (message.at_key("content").get(parts)) return false;
  for (const auto part : parts) {
    std::string_view type;
    if (!part.at_key("type").get(type) && (type == "image_url" || type == "input_image")) return true;
  }
  return false;
}

bool holds_image_message(const field_reader& in) {
  const auto value = in.find("messages");
  simdjson::dom::array messages;
  if (!value || value->get(messages)) return false;
  for (const auto entry : messages) {
    object message;
    if (!entry.get(message) && holds_image(message)) return true;
  }
  return false;
}

bool wants_json(const field_reader& in) {
  const auto format = in.find("response_format");
  std::string_view type;
  return format && !format->at_key("type").get(type) && (type == "json_object" || type == "json_schema");
}

// Every object form of tool_choice names what must be called, but for a list with mode auto.
bool forces_tool(const field_reader& in) {
  const auto choice = in.find("tool_choice");
  if (!choice) return false;
  std::string_view word;
  if (!choice->get(word)) return word == "required";
  object form;
  return !choice->get(form) && (form.at_key("mode").get(word) || word != "auto");
}

// A count as any target may read it: whole, or with a fraction; 0 where it is no positive number. Some read
// "100" as a number too: what bounds the cost must be one to all.
std::int64_t count_in(field_reader& in, std::string_view key) {
  const auto value = in.find(key);
  std::int64_t whole = 0;
  double number = 0;
  if (!value || value->is_null()) return 0;
  if (!value->is_number()) {
    in.fail(key, "must be a number");
    return 0;
  }
  if (!value->get(whole)) return std::clamp<std::int64_t>(whole, 0, k_count_max);
  if (value->get(number) || !(number > 0)) return value->is_uint64() ? k_count_max : 0;
  return number >= static_cast<double>(k_count_max) ? k_count_max
                                                    : static_cast<std::int64_t>(std::ceil(number));
}

// Prompts of a completions request: one, or the entries of a list that is not one list of ids.
std::int64_t prompts_in(const field_reader& in) {
  const auto value = in.find("prompt");
  simdjson::dom::array list;
  if (!value || value->get(list) || list.size() == 0 || list.at(0).is_number()) return 1;
  return static_cast<std::int64_t>(list.size());
}

void read_extent(field_reader& in, generation_call& out) {
  out.output_tokens_max = std::max(count_in(in, "max_tokens"), count_in(in, "max_completion_tokens"));
  const auto each = std::max({std::int64_t{1}, count_in(in, "n"), count_in(in, "best_of")});
  out.choices = std::min(each * prompts_in(in), k_count_max);
}

void read_call(object root, generation_call& out, std::optional<error>& fault) {
  field_reader in(root);
  in.text("model", out.model);
  if (in.ok() && out.model.empty()) in.fail("model", "is required: the name of a model from GET /v1/models");
  in.flag("stream", out.stream);
  if (const auto options = in.object("stream_options")) {
    field_reader inner(*options, "stream_options");
    inner.flag("include_usage", out.include_usage);
    in.adopt(inner);
  }
  in.text("cache_salt", out.cache_salt);
  if (out.cache_salt.size() > k_cache_salt_bytes_max) {
    in.fail("cache_salt", fmt::format("may hold at most {} bytes", k_cache_salt_bytes_max));
  }
  read_extent(in, out);
  std::string_view session;
  if (const auto named = in.find("prompt_cache_key"); named && !named->get(session)) {
    name_session(out, session);
  }
  simdjson::dom::array tools;
  const auto declared = in.find("tools");
  out.has_tools = declared && !declared->get(tools) && tools.size() > 0;
  out.facts.needs_image = holds_image_message(in);
  out.facts.needs_structured_output = wants_json(in);
  out.facts.needs_forced_tool = forces_tool(in);
  fault = in.first_error();
}

}  // namespace

void name_session(generation_call& call, std::string_view name) {
  if (call.session.empty() && name.size() <= k_session_bytes_max) call.session = name;
}

result<generation_call> read_generation_call(generation_kind kind, std::string body) {
  generation_call out{.kind = kind, .body = std::move(body), .model = {}, .facts = {}};
  auto document = json_document::parse(out.body);
  std::string tamed;
  if (!document && document.error().code == errc::bad_request) {
    tamed = out.body;
    if (tame_numbers(tamed)) document = json_document::parse(tamed);
  }
  if (!document) return std::unexpected(document.error());
  std::optional<error> fault;
  read_call(document->root(), out, fault);
  if (fault) return std::unexpected(std::move(*fault));
  return out;
}

}  // namespace weir::gateway::api
