// A JSON text as a tree of numbered values: what a schema compiler compares by identity, walks by JSON
// pointer and reads in the order of the text. A value; any thread once made.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/result.hpp"

namespace weir::engine::structure {

using value_id = std::uint32_t;
inline constexpr value_id k_no_value = 0xFFFFFFFF;

enum class json_kind : std::uint8_t { null, boolean, integer, fraction, string, array, object };

// A number is in its canonical spelling: digits without exponent where it has at most 20 on either side of
// the point, a whole number without a point.
struct json_value {
  json_kind kind = json_kind::null;
  bool truth = false;
  std::string text;               // of a string; of a number as spelled
  std::vector<value_id> items;    // of an array; of an object in the order of `keys`
  std::vector<std::string> keys;  // of an object, unique
  value_id parent = k_no_value;
  std::string step;  // the last part of its JSON pointer, escaped
};

class json_tree final {
 public:
  // errc::bad_request for what is no JSON, too large, too deep, or has a key twice.
  static result<json_tree> parse(std::string_view text);

  value_id root() const noexcept { return 0; }
  const json_value& operator[](value_id id) const noexcept { return values_[id]; }
  std::size_t size() const noexcept { return values_.size(); }

  // k_no_value where there is none. REQUIRES: an object.
  value_id find(value_id object, std::string_view key) const noexcept;

  // "#", "#/properties/a": where a value stands.
  std::string pointer(value_id id) const;

  // The value behind a "#..." reference, k_no_value where there is none.
  value_id resolve(std::string_view reference) const;

  // Without white space, keys in their order, strings in their canonical spelling.
  std::string dump(value_id id) const;
  // The same for values that JSON Schema holds to be equal: keys sorted.
  std::string identity(value_id id) const;

 private:
  friend class tree_reader;

  void write(value_id id, bool sorted, std::string& out) const;

  std::vector<json_value> values_;
};

// A text as the one JSON string that grammars of fixed texts know for it: escapes only where they are needed.
std::string canonical_string(std::string_view text);
// The number as such a grammar knows it.
std::string canonical_number(double value);

}  // namespace weir::engine::structure
