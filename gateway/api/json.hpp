// Reading client JSON: bounded depth, no duplicate keys (a gateway and its upstream must never read two
// different values), valid UTF-8, and typed fields with ranges whose errors name the field. Values view into
// the parsed document. One request, one thread.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/text/quote.hpp"
#include "gateway/errc.hpp"

namespace weir::gateway::api {

inline constexpr std::size_t k_json_depth_max = 64;

// Parses a body into `parser`; the object is valid until its next use. A body whose capacity reaches
// SIMDJSON_PADDING bytes past its end is parsed in place, any other from a copy.
result<simdjson::dom::object> parse_object(simdjson::dom::parser& parser, const std::string& body);

// A sentence about the first place that made the parser say `what` of a body, where that is a number of more
// than 64 bits or half a surrogate pair, which JSON's grammar allows; else the parser's own words.
std::string describe_json_fault(std::string_view text, simdjson::error_code what);

// Numbers that JSON allows and the parser does not, of more than 64 bits, are written as 9e99 or -9e99 of the
// same width in `text`, so that they stay beyond every limit; all others, and the rest, stay as they are.
// False where there was none: then it is no number that is at fault.
bool tame_numbers(std::string& text);

// A parsed body; elements stay valid as long as this lives.
class json_document final {
 public:
  // The body must be one JSON object.
  static result<json_document> parse(const std::string& body);

  simdjson::dom::object root() const noexcept { return root_; }

 private:
  // Its memory is worth keeping for the next document of the thread: taking it anew costs more than parsing.
  struct keep_spare {
    void operator()(simdjson::dom::parser* parser) const noexcept;
  };
  static std::unique_ptr<simdjson::dom::parser, keep_spare> take_parser();

  std::unique_ptr<simdjson::dom::parser, keep_spare> parser_;
  simdjson::dom::object root_;
};

struct number_range {
  double min;
  double max;
};

struct integer_range {
  std::int64_t min;
  std::int64_t max;
};

// Reads fields of one object; null counts as absent. The first fault is kept and later reads change nothing.
class field_reader final {
 public:
  // `path` prefixes field names in errors: "messages[3]".
  field_reader(simdjson::dom::object object, std::string path = {})
      : object_(object), path_(std::move(path)) {}

  std::optional<simdjson::dom::element> find(std::string_view key) const;
  void text(std::string_view key, std::string& out);
  void flag(std::string_view key, bool& out);
  void number(std::string_view key, std::optional<float>& out, number_range range);
  void integer(std::string_view key, std::optional<std::int64_t>& out, integer_range range);
  std::optional<simdjson::dom::object> object(std::string_view key);
  std::optional<simdjson::dom::array> array(std::string_view key);

  std::string path_of(std::string_view key) const;
  void fail(std::string_view key, std::string message);
  void adopt(const field_reader&
                 inner);  // takes over the fault of an inner reader, which already names its full path
  bool ok() const noexcept { return !error_.has_value(); }
  const std::optional<error>& first_error() const noexcept { return error_; }

 private:
  simdjson::dom::object object_;
  std::string path_;
  std::optional<error> error_;
};

// The beginning of `text`, cut between characters, for quoting a client in an error.
std::string_view excerpt(std::string_view text) noexcept;

using engine::text::append_quoted;

}  // namespace weir::gateway::api
