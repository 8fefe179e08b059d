#include "gateway/dialects/source_json.hpp"

namespace weir::gateway::dialects {

namespace {

constexpr std::int64_t k_count_max = (std::int64_t{1} << 53) - 1;  // what every client's numbers hold

}  // namespace

result<source_json> source_json::parse(const std::string& text) {
  auto document = api::json_document::parse(text);
  if (!document && document.error().code == errc::bad_request) {
    std::string tamed = text;
    if (api::tame_numbers(tamed)) document = api::json_document::parse(tamed);
  }
  if (!document) return std::unexpected(document.error());
  return source_json(std::move(*document), text);
}

std::string_view text_of(std::string_view object_text, std::string_view key) {
  const auto found = api::find_member(object_text, 0, key);
  if (!found) return {};
  const std::string_view value = found->value.in(object_text);
  return value == "null" ? std::string_view() : value;
}

std::vector<std::string_view> texts_of(std::string_view array_text) {
  std::vector<std::string_view> out;
  for (const auto& span : api::elements_of(array_text, 0)) out.push_back(span.in(array_text));
  return out;
}

bool is_object(const std::string& text) {
  return source_json::parse(text).has_value();
}

std::optional<std::string_view> string_in(simdjson::dom::object from, std::string_view key) {
  std::string_view out;
  if (from.at_key(key).get(out)) return std::nullopt;
  return out;
}

std::int64_t count_in(simdjson::dom::object from, std::string_view key, std::int64_t otherwise) {
  std::int64_t value = 0;
  if (from.at_key(key).get(value) || value < 0 || value > k_count_max) return otherwise;
  return value;
}

}  // namespace weir::gateway::dialects
