#include "gateway/api/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace weir::gateway::api {

namespace {

using simdjson::dom::element_type;

constexpr std::size_t k_few_fields = 12;  // up to here comparing all pairs beats sorting

bool has_twice_few(simdjson::dom::object object, std::string_view& twice) {
  std::array<std::string_view, k_few_fields> seen;
  std::size_t count = 0;
  for (const auto field : object) {
    for (std::size_t i = 0; i < count; ++i) {
      if (seen[i] == field.key) return twice = field.key, true;
    }
    seen[count++] = field.key;
  }
  return false;
}

bool has_twice_many(simdjson::dom::object object, std::string_view& twice) {
  std::vector<std::string_view> keys;
  for (const auto field : object) keys.push_back(field.key);
  std::sort(keys.begin(), keys.end());
  const auto found = std::adjacent_find(keys.begin(), keys.end());
  if (found == keys.end()) return false;
  twice = *found;
  return true;
}

constexpr std::size_t k_spare_parser_bytes_max = 8 << 20;  // of its largest document
thread_local std::unique_ptr<simdjson::dom::parser> t_spare_parser;

// Whether an object in the tree holds a key twice. Depth is bounded by the parser.
bool find_duplicate(simdjson::dom::element element, std::string_view& twice) {
  if (element.type() == element_type::ARRAY) {
    const simdjson::dom::array array = element.get_array().value_unsafe();
    return std::any_of(array.begin(), array.end(), [&](auto child) { return find_duplicate(child, twice); });
  }
  if (element.type() != element_type::OBJECT) return false;
  const simdjson::dom::object object = element.get_object().value_unsafe();
  // Object sizes saturate in the parser, far above the bound.
  const bool few = object.size() <= k_few_fields;
  if (few ? has_twice_few(object, twice) : has_twice_many(object, twice)) return true;
  for (const auto field : object) {
    if (find_duplicate(field.value, twice)) return true;
  }
  return false;
}

}  // namespace

result<simdjson::dom::object> parse_object(simdjson::dom::parser& parser, const std::string& body) {
  if (body.empty()) return fail(errc::bad_request, "the body is empty; expected a JSON object");
  const bool padded = body.capacity() - body.size() >= simdjson::SIMDJSON_PADDING;
  const bool fits = parser.capacity() >= body.size() && parser.max_depth() == k_json_depth_max + 1;
  if (!fits && parser.allocate(std::max<std::size_t>(body.size(), 4096), k_json_depth_max + 1)) {
    return fail(errc::overloaded, "no memory for a body of this size");
  }
  const auto parsed = parser.parse(body.data(), body.size(), !padded);
  if (parsed.error() == simdjson::DEPTH_ERROR) {
    return fail(errc::bad_request,
                fmt::format("the JSON body is nested deeper than {} levels", k_json_depth_max));
  }
  if (parsed.error()) {
    return fail(errc::bad_request, describe_json_fault(body, parsed.error()));
  }
  simdjson::dom::object root;
  if (parsed.value_unsafe().get_object().get(root)) {
    return fail(errc::bad_request, "the body must be a JSON object");
  }
  std::string_view twice;
  if (find_duplicate(parsed.value_unsafe(), twice)) {
    return fail(errc::bad_request,
                fmt::format("an object in the body has the key '{}' twice", excerpt(twice)));
  }
  return root;
}

void json_document::keep_spare::operator()(simdjson::dom::parser* parser) const noexcept {
  std::unique_ptr<simdjson::dom::parser> owned(parser);
  if (owned->capacity() <= k_spare_parser_bytes_max) t_spare_parser = std::move(owned);
}

std::unique_ptr<simdjson::dom::parser, json_document::keep_spare> json_document::take_parser() {
  if (!t_spare_parser) t_spare_parser = std::make_unique<simdjson::dom::parser>();
  return std::unique_ptr<simdjson::dom::parser, keep_spare>(t_spare_parser.release());
}

result<json_document> json_document::parse(const std::string& body) {
  json_document doc;
  doc.parser_ = take_parser();
  const auto root = parse_object(*doc.parser_, body);
  if (!root) return std::unexpected(root.error());
  doc.root_ = *root;
  return doc;
}

std::optional<simdjson::dom::element> field_reader::find(std::string_view key) const {
  simdjson::dom::element value;
  if (object_.at_key(key).get(value) || value.is_null()) return std::nullopt;
  return value;
}

std::string field_reader::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

void field_reader::fail(std::string_view key, std::string message) {
  if (error_) return;
  auto path = path_of(key);
  error_ = error{errc::bad_request, fmt::format("'{}' {}", path, message), path};
}

void field_reader::adopt(const field_reader& inner) {
  if (!error_) error_ = inner.error_;
}

void field_reader::text(std::string_view key, std::string& out) {
  const auto value = find(key);
  std::string_view view;
  if (!value) return;
  if (value->get(view)) return fail(key, "must be a string");
  out = view;
}

void field_reader::flag(std::string_view key, bool& out) {
  const auto value = find(key);
  if (value && value->get(out)) fail(key, "must be true or false");
}

void field_reader::number(std::string_view key, std::optional<float>& out, number_range range) {
  const auto value = find(key);
  if (!value) return;
  double number = 0;
  if (value->get(number) || !(number >= range.min && number <= range.max)) {
    return fail(key, fmt::format("must be a number from {} to {}", range.min, range.max));
  }
  out = static_cast<float>(number);
}

void field_reader::integer(std::string_view key, std::optional<std::int64_t>& out, integer_range range) {
  const auto value = find(key);
  if (!value) return;
  std::int64_t number = 0;
  if (value->get(number) || number < range.min || number > range.max) {
    return fail(key, fmt::format("must be a whole number from {} to {}", range.min, range.max));
  }
  out = number;
}

std::optional<simdjson::dom::object> field_reader::object(std::string_view key) {
  const auto value = find(key);
  simdjson::dom::object out;
  if (!value) return std::nullopt;
  if (value->get(out)) {
    fail(key, "must be an object");
    return std::nullopt;
  }
  return out;
}

std::optional<simdjson::dom::array> field_reader::array(std::string_view key) {
  const auto value = find(key);
  simdjson::dom::array out;
  if (!value) return std::nullopt;
  if (value->get(out)) {
    fail(key, "must be an array");
    return std::nullopt;
  }
  return out;
}

std::string_view excerpt(std::string_view text) noexcept {
  constexpr std::size_t k_excerpt_bytes = 64;
  if (text.size() <= k_excerpt_bytes) return text;
  std::size_t end = k_excerpt_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

}  // namespace weir::gateway::api
