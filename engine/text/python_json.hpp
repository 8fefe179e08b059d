// JSON as templates write it: the text of Python's json.dumps(..., ensure_ascii=False) of the parsed value.
// Keys in first-seen order with the last value of a repeated key, non-ASCII as it is, integers digit for
// digit, other numbers as Python's repr. Prompts must match to the byte, or prefixes do not. Pure; any
// thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/result.hpp"

namespace weir::engine::text {

inline constexpr std::size_t k_python_json_depth_max = 64;
inline constexpr std::size_t k_python_json_bytes_max = 16ULL << 20;

struct python_json {
  std::string text;
  bool is_array = false;
  bool is_empty = false;  // [] and {}, which a template takes for false
};

struct python_json_style {
  bool sorted = false;  // keys of all objects
  bool spaced = false;  // ", " and ": ", Python's default, instead of "," and ":"
};

// errc::bad_request says why `json` cannot be read.
result<python_json> to_python_json(std::string_view json, python_json_style style = {});

// The members of an object. Strings are raw, everything else is spaced JSON text.
struct python_member {
  std::string key;
  std::string_view type;  // string, number, boolean, null, array or object
  std::string text;
};
result<std::vector<python_member>> to_python_members(std::string_view json);

}  // namespace weir::engine::text
