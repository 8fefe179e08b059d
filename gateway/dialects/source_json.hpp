// One JSON object to be translated, as parsed values and as its text. Values copied from the text keep
// numbers that no parsed value holds (more than 64 bits, 1.0, 1e2) as they were written. One request, one
// thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gateway/api/json.hpp"
#include "gateway/api/json_text.hpp"

namespace weir::gateway::dialects {

class source_json final {
 public:
  // `text` must outlive it: bounded depth, no key twice, valid UTF-8 (json.hpp).
  static result<source_json> parse(const std::string& text);

  simdjson::dom::object root() const noexcept { return document_.root(); }
  std::string_view text() const noexcept { return text_; }

 private:
  source_json(api::json_document document, std::string_view text)
      : document_(std::move(document)), text_(text) {}

  api::json_document document_;
  std::string_view text_;
};

// The text of the member `key` of an object's text; empty where it has none or null. REQUIRES: valid JSON.
std::string_view text_of(std::string_view object_text, std::string_view key);

// The texts of an array's elements; none where it is something else. REQUIRES: valid JSON.
std::vector<std::string_view> texts_of(std::string_view array_text);

// Whether `text` is one JSON object that may be inserted as it is.
bool is_object(const std::string& text);

// A string member, or nothing.
std::optional<std::string_view> string_in(simdjson::dom::object from, std::string_view key);

// A count of tokens in a member: whole, not negative, at most 2^53 - 1; anything else is `otherwise`.
std::int64_t count_in(simdjson::dom::object from, std::string_view key, std::int64_t otherwise);

}  // namespace weir::gateway::dialects
