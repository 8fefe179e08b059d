#include "engine/model/json_fields.hpp"

#include <cmath>
#include <utility>

namespace weir::engine::model {

namespace dom = simdjson::dom;

std::optional<dom::element> json_fields::find(std::string_view key) const {
  dom::element value;
  if (object_.at_key(key).get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
  return value;
}

void json_fields::reject(errc code, std::string detail) {
  if (!fault_) fault_ = error{code, where_ + ": " + std::move(detail)};
}

void json_fields::refuse(std::string_view key, std::string_view reason) {
  reject(errc::unsupported, "\"" + std::string(key) + "\" " + std::string(reason));
}

void json_fields::expect_text(std::string_view key, std::string_view wanted, std::string_view fallback) {
  const std::string value = text(key, fallback);
  if (value != wanted) refuse(key, "is " + value + "; this build runs " + std::string(wanted));
}

void json_fields::wrong(std::string_view key, std::string_view expected) {
  reject(errc::bad_model, "\"" + std::string(key) + "\" must be " + std::string(expected));
}

std::int32_t json_fields::integer(std::string_view key, std::int32_t min, std::int32_t max,
                                  std::optional<std::int32_t> fallback) {
  const auto value = find(key);
  if (!value) {
    if (!fallback) reject(errc::bad_model, "\"" + std::string(key) + "\" is missing");
    return fallback.value_or(min);
  }
  std::int64_t number = 0;
  if (value->get(number) != simdjson::SUCCESS || number < min || number > max) {
    wrong(key, "an integer from " + std::to_string(min) + " to " + std::to_string(max));
    return min;
  }
  return static_cast<std::int32_t>(number);
}

double json_fields::number(std::string_view key, double min, double max, std::optional<double> fallback) {
  const auto value = find(key);
  if (!value) {
    if (!fallback) reject(errc::bad_model, "\"" + std::string(key) + "\" is missing");
    return fallback.value_or(min);
  }
  double number = 0.0;
  if (value->get(number) != simdjson::SUCCESS || !(number >= min && number <= max)) {
    wrong(key, "a number from " + std::to_string(min) + " to " + std::to_string(max));
    return min;
  }
  return number;
}

bool json_fields::boolean(std::string_view key, bool fallback) {
  const auto value = find(key);
  if (!value) return fallback;
  bool flag = fallback;
  if (value->get(flag) != simdjson::SUCCESS) wrong(key, "true or false");
  return flag;
}

std::string json_fields::text(std::string_view key, std::string_view fallback) {
  const auto value = find(key);
  if (!value) return std::string(fallback);
  std::string_view view;
  if (value->get(view) != simdjson::SUCCESS) {
    wrong(key, "a string");
    return std::string(fallback);
  }
  return std::string(view);
}

std::vector<std::int32_t> json_fields::integers(std::string_view key, std::int32_t min, std::int32_t max,
                                                std::size_t count_max) {
  std::vector<std::int32_t> out;
  const auto value = find(key);
  if (!value) return out;
  const std::string expected = "at most " + std::to_string(count_max) + " integers from " +
                               std::to_string(min) + " to " + std::to_string(max);
  const auto take = [&out, min, max](dom::element item) {
    std::int64_t number = 0;
    if (item.get(number) != simdjson::SUCCESS || number < min || number > max) return false;
    out.push_back(static_cast<std::int32_t>(number));
    return true;
  };
  dom::array items;
  if (value->get(items) != simdjson::SUCCESS) {
    if (!take(*value)) wrong(key, expected);
    return out;
  }
  for (const dom::element item : items) {
    if (out.size() == count_max || !take(item)) {
      wrong(key, expected);
      return {};
    }
  }
  return out;
}

std::vector<std::string> json_fields::texts(std::string_view key, std::size_t count_max) {
  std::vector<std::string> out;
  const auto value = find(key);
  if (!value) return out;
  dom::array items;
  if (value->get(items) != simdjson::SUCCESS) {
    wrong(key, "a list of strings");
    return out;
  }
  for (const dom::element item : items) {
    std::string_view view;
    if (out.size() == count_max || item.get(view) != simdjson::SUCCESS) {
      wrong(key, "at most " + std::to_string(count_max) + " strings");
      return {};
    }
    out.emplace_back(view);
  }
  return out;
}

bool json_fields::is_set(std::string_view key) const {
  const auto value = find(key);
  if (!value) return false;
  bool flag = true;
  if (value->get(flag) == simdjson::SUCCESS) return flag;
  dom::object object;
  if (value->get(object) == simdjson::SUCCESS) return object.size() > 0;
  dom::array list;
  return value->get(list) != simdjson::SUCCESS || list.size() > 0;
}

std::vector<std::string> json_fields::keys() const {
  std::vector<std::string> out;
  for (const dom::key_value_pair field : object_) out.emplace_back(field.key);
  return out;
}

std::optional<json_fields> json_fields::object(std::string_view key) {
  dom::object inner;
  const auto value = find(key);
  if (!value || value->get(inner) != simdjson::SUCCESS) {
    wrong(key, "an object");
    return std::nullopt;
  }
  return json_fields(inner, where_ + ": " + std::string(key));
}

}  // namespace weir::engine::model
