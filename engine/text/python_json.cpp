#include "engine/text/python_json.hpp"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/text/quote.hpp"

namespace weir::engine::text {
namespace {

namespace od = simdjson::ondemand;
using simdjson::error_code;

// float.__repr__: the shortest digits that round-trip, positional for decimal exponents from -4 to 15.
void append_float(double value, std::string& out) {
  if (std::isinf(value)) {
    out += value < 0 ? "-Infinity" : "Infinity";
    return;
  }
  char buffer[64];
  const auto scientific = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string_view text(buffer, scientific.ptr - buffer);
  std::string_view digits = text.substr(text.rfind('e') + 1);
  if (digits.starts_with('+')) digits.remove_prefix(1);
  int exponent = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
  if (exponent < -4 || exponent >= 16) {
    out += text;
    return;
  }
  char fixed[64];
  const auto end = std::to_chars(fixed, fixed + sizeof fixed, value, std::chars_format::fixed);
  const std::string_view positional(fixed, end.ptr - fixed);
  out += positional;
  if (positional.find('.') == std::string_view::npos) out += ".0";
}

using members = std::vector<std::pair<std::string, std::string>>;  // keys and texts

class writer {
 public:
  explicit writer(python_json_style style) : style_(style) {}

  error_code value(od::value v, std::string& out) {
    if (depth_ == k_python_json_depth_max) return simdjson::DEPTH_ERROR;
    ++depth_;
    const error_code code = any(v, out);
    --depth_;
    return code;
  }

  error_code array(od::array items, std::string& out) {
    out.push_back('[');
    bool first = true;
    for (auto item : items) {
      od::value v;
      if (const error_code code = item.get(v)) return code;
      if (!first) out += comma();
      first = false;
      if (const error_code code = value(v, out)) return code;
    }
    out.push_back(']');
    return simdjson::SUCCESS;
  }

  error_code object(od::object fields, std::string& out) {
    members all;
    const auto read = [this](od::value v, std::string& text) { return value(v, text); };
    if (const error_code code = read_members(fields, all, read)) return code;
    if (style_.sorted) std::sort(all.begin(), all.end());
    out.push_back('{');
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i > 0) out += comma();
      append_quoted(out, all[i].first);
      out += style_.spaced ? ": " : ":";
      out += all[i].second;
    }
    out.push_back('}');
    return simdjson::SUCCESS;
  }

  // `read` writes a value to its text.
  template <class Read>
  static error_code read_members(od::object fields, members& all, const Read& read) {
    std::unordered_map<std::string, std::size_t> places;
    for (auto item : fields) {
      od::field field;
      if (const error_code code = std::move(item).get(field)) return code;
      std::string_view key;
      if (const error_code code = field.unescaped_key().get(key)) return code;
      const auto [place, added] = places.try_emplace(std::string(key), all.size());
      if (added) all.emplace_back(key, std::string());
      std::string text;
      if (const error_code code = read(field.value(), text)) return code;
      all[place->second].second = std::move(text);
    }
    return simdjson::SUCCESS;
  }

 private:
  std::string_view comma() const { return style_.spaced ? ", " : ","; }

  error_code any(od::value v, std::string& out) {
    od::json_type type{};
    if (const error_code code = v.type().get(type)) return code;
    switch (type) {
      case od::json_type::array: {
        od::array items;
        if (const error_code code = v.get_array().get(items)) return code;
        return array(items, out);
      }
      case od::json_type::object: {
        od::object fields;
        if (const error_code code = v.get_object().get(fields)) return code;
        return object(fields, out);
      }
      case od::json_type::string: {
        std::string_view text;
        if (const error_code code = v.get_string().get(text)) return code;
        append_quoted(out, text);
        return simdjson::SUCCESS;
      }
      case od::json_type::number:
        return number(v, out);
      case od::json_type::boolean: {
        bool truth = false;
        if (const error_code code = v.get_bool().get(truth)) return code;
        out += truth ? "true" : "false";
        return simdjson::SUCCESS;
      }
      case od::json_type::null:
        break;
    }
    bool is_null = false;
    if (simdjson::simdjson_result<bool>(v.is_null()).get(is_null) || !is_null) return simdjson::N_ATOM_ERROR;
    out += "null";
    return simdjson::SUCCESS;
  }

  // simdjson's own integers end at 64 bits and its floats at the largest double; Python's do not.
  static error_code number(od::value v, std::string& out) {
    std::string_view token = v.raw_json_token();
    const std::size_t end = token.find_first_not_of("+-.0123456789eE");
    if (end != std::string_view::npos) {
      if (token.find_first_not_of(" \t\r\n", end) != std::string_view::npos) return simdjson::NUMBER_ERROR;
      token = token.substr(0, end);
    }
    if (!is_number(token)) return simdjson::NUMBER_ERROR;
    if (token.find_first_of(".eE") == std::string_view::npos) {
      out += token == "-0" ? "0" : token;
      return simdjson::SUCCESS;
    }
    double value = 0;
    const auto [rest, code] = std::from_chars(token.data(), token.data() + token.size(), value);
    if (code == std::errc::result_out_of_range) value = overflowed(token);
    append_float(value, out);
    return simdjson::SUCCESS;
  }

  // from_chars does not say whether a number was too large or too small, and leaves the value alone in both
  // cases.
  static double overflowed(std::string_view token) {
    return std::strtod(std::string(token).c_str(), nullptr);
  }

  static bool is_number(std::string_view t) {
    const auto digits = [&t] {
      const std::size_t n = std::min(t.find_first_not_of("0123456789"), t.size());
      t.remove_prefix(n);
      return n;
    };
    if (t.starts_with('-')) t.remove_prefix(1);
    const bool zero_first = t.starts_with('0');
    const std::size_t whole = digits();
    if (whole == 0 || (zero_first && whole > 1)) return false;
    if (t.starts_with('.')) {
      t.remove_prefix(1);
      if (digits() == 0) return false;
    }
    if (t.starts_with('e') || t.starts_with('E')) {
      t.remove_prefix(1);
      if (t.starts_with('+') || t.starts_with('-')) t.remove_prefix(1);
      if (digits() == 0) return false;
    }
    return t.empty();
  }

  python_json_style style_;
  std::size_t depth_ = 0;
};

// `read` gets the root value.
template <class Read>
error_code read_document(const simdjson::padded_string& json, const Read& read) {
  od::parser parser;
  od::document document;
  if (const error_code code = parser.iterate(json).get(document)) return code;
  od::value root;
  if (const error_code code = document.get_value().get(root)) return code;
  if (const error_code code = read(root)) return code;
  const char* rest = nullptr;  // an error means that nothing is left
  return document.current_location().get(rest) ? simdjson::SUCCESS : simdjson::TRAILING_CONTENT;
}

std::unexpected<error> unreadable(const char* wanted, error_code code) {
  return fail(errc::bad_request, std::string("not ") + wanted + " in JSON: " + simdjson::error_message(code));
}

result<void> check_size(std::string_view json) {
  if (json.size() <= k_python_json_bytes_max) return {};
  return fail(errc::bad_request,
              "the JSON is larger than " + std::to_string(k_python_json_bytes_max) + " bytes");
}

std::string_view type_of(std::string_view text) {
  switch (text[0]) {
    case '{':
      return "object";
    case '[':
      return "array";
    case '"':
      return "string";
    case 't':
    case 'f':
      return "boolean";
    case 'n':
      return "null";
    default:
      return "number";
  }
}

}  // namespace

result<python_json> to_python_json(std::string_view json, python_json_style style) {
  if (auto ok = check_size(json); !ok) return std::unexpected(ok.error());
  python_json out;
  writer w(style);
  const error_code code =
      read_document(simdjson::padded_string(json), [&](od::value root) { return w.value(root, out.text); });
  if (code) return unreadable("an array or object", code);
  out.is_array = out.text.starts_with('[');
  out.is_empty = out.text.size() == 2;
  return out;
}

result<std::vector<python_member>> to_python_members(std::string_view json) {
  if (auto ok = check_size(json); !ok) return std::unexpected(ok.error());
  members all;
  writer w({.sorted = false, .spaced = true});
  const error_code code = read_document(simdjson::padded_string(json), [&](od::value root) {
    od::object fields;
    if (const error_code not_object = root.get_object().get(fields)) return not_object;
    return writer::read_members(fields, all, [&w](od::value v, std::string& text) -> error_code {
      std::string_view raw;
      od::json_type type{};
      if (const error_code no_type = v.type().get(type)) return no_type;
      if (type != od::json_type::string) return w.value(v, text);
      if (const error_code no_string = v.get_string().get(raw)) return no_string;
      text.append(1, '"').append(raw);
      return simdjson::SUCCESS;
    });
  });
  if (code) return unreadable("an object", code);
  std::vector<python_member> out;
  for (auto& [key, text] : all) {
    const std::string_view type = type_of(text);
    out.push_back({std::move(key), type, type == "string" ? text.substr(1) : std::move(text)});
  }
  return out;
}

}  // namespace weir::engine::text
