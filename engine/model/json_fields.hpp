// Typed, range-checked reading of one JSON object's fields. The first fault is kept and every later read is
// harmless, so a parser reads all fields in a row and asks once. One thread; the JSON document outlives this
// object.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <simdjson.h>

#include "engine/result.hpp"

namespace weir::engine::model {

class json_fields final {
 public:
  // `where` names the object in errors, such as "config.json" or "config.json: linear_attn_config".
  json_fields(simdjson::dom::object object, std::string where) : object_(object), where_(std::move(where)) {}

  // Absent or null gives the fallback, or a fault when there is none. The range is inclusive.
  std::int32_t integer(std::string_view key, std::int32_t min, std::int32_t max,
                       std::optional<std::int32_t> fallback = std::nullopt);
  double number(std::string_view key, double min, double max, std::optional<double> fallback = std::nullopt);
  bool boolean(std::string_view key, bool fallback);
  std::string text(std::string_view key, std::string_view fallback);

  // A list of integers, or a single one, at most `count_max` of them. Absent or null gives an empty list.
  std::vector<std::int32_t> integers(std::string_view key, std::int32_t min, std::int32_t max,
                                     std::size_t count_max);
  std::vector<std::string> texts(std::string_view key, std::size_t count_max);

  // Present and not null.
  bool has(std::string_view key) const { return find(key).has_value(); }

  // Present and neither null, false, nor an empty object or list.
  bool is_set(std::string_view key) const;

  std::optional<json_fields> object(std::string_view key);
  std::vector<std::string> keys() const;

  void reject(errc code, std::string detail);

  // errc::unsupported: "key" and the reason.
  void refuse(std::string_view key, std::string_view reason);
  // Refuses any other text; absent counts as `fallback`.
  void expect_text(std::string_view key, std::string_view wanted, std::string_view fallback);
  const std::optional<error>& fault() const noexcept { return fault_; }

  // Takes over the fault of an object inside this one.
  void adopt(const json_fields& inner) {
    if (!fault_) fault_ = inner.fault_;
  }

 private:
  std::optional<simdjson::dom::element> find(std::string_view key) const;
  void wrong(std::string_view key, std::string_view expected);

  simdjson::dom::object object_;
  std::string where_;
  std::optional<error> fault_;
};

}  // namespace weir::engine::model
