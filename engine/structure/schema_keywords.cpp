// The keywords of one schema and what they say.
#include <algorithm>
#include <array>
#include <set>

#include "engine/structure/pattern.hpp"
#include "engine/structure/schema_facts.hpp"

namespace weir::engine::structure {

namespace {

constexpr std::string_view k_asserting[] = {"$ref",
                                            "allOf",
                                            "anyOf",
                                            "oneOf",
                                            "type",
                                            "enum",
                                            "const",
                                            "minimum",
                                            "maximum",
                                            "exclusiveMinimum",
                                            "minItems",
                                            "exclusiveMaximum",
                                            "minLength",
                                            "maxLength",
                                            "pattern",
                                            "format",
                                            "maxItems",
                                            "items",
                                            "prefixItems",
                                            "additionalItems",
                                            "required",
                                            "properties",
                                            "additionalProperties",
                                            "uniqueItems",
                                            "minProperties"};

// They say nothing about values, or only hold schemas that others refer to.
constexpr std::string_view k_annotating[] = {
    "$schema", "$id",     "id",       "$comment", "$defs",      "definitions", "title",    "description",
    "default", "example", "examples", "$anchor",  "deprecated", "readOnly",    "writeOnly"};

constexpr std::size_t k_pattern_state_steps = 64;  // what a state of a pattern's automaton took to find

bool is_in(std::span<const std::string_view> list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

struct named_format {
  std::string_view name;
  std::string_view pattern;
};
constexpr std::array<named_format, 6> k_formats{{
    {"date", "^\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])$"},
    {"time", "^([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,9})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)$"},
    {"date-time",
     "^\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])T([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,9})?(Z|[+-]("
     "[01]"
     "\\d|2[0-3]):[0-5]\\d)$"},
    {"uuid", "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"},
    {"ipv4", "^((25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)\\.){3}(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)$"},
    {"email",
     "^[A-Za-z0-9_+-]+(\\.[A-Za-z0-9_+-]+)*@([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\\.)+[A-Za-z]{2,}$"},
}};
// Of OpenAPI, about numbers' storage.
constexpr std::string_view k_number_formats[] = {"int32", "int64", "float", "double"};

std::uint8_t type_of(std::string_view word) {
  static constexpr std::pair<std::string_view, std::uint8_t> k_types[] = {
      {"null", k_null},     {"boolean", k_boolean}, {"integer", k_whole}, {"number", k_whole | k_fraction},
      {"string", k_string}, {"array", k_array},     {"object", k_object}};
  for (const auto& [name, bits] : k_types) {
    if (name == word) return bits;
  }
  return 0;
}

}  // namespace

void schema_reader::check_keywords(value_id schema) {
  if (!checked_.try_emplace(schema, true).second) return;
  const json_value& value = tree_[schema];
  for (std::size_t i = 0; i < value.keys.size() && steps_.spend(1); ++i) {
    const std::string& key = value.keys[i];
    if (is_in(k_asserting, key) || is_in(k_annotating, key) || key.starts_with("x-")) continue;
    return refuse(schema, key, "is not supported");
  }
  // It would change what references inside mean.
  for (const std::string_view key : {"$id", "id"}) {
    if (schema != tree_.root() && tree_.find(schema, key) != k_no_value) {
      return refuse(schema, key, "is supported at the root alone");
    }
  }
}

value_id schema_reader::member(value_id schema, std::string_view keyword, json_kind kind,
                               std::string_view must) {
  const value_id at = tree_.find(schema, keyword);
  if (at == k_no_value || tree_[at].kind == kind) return at;
  refuse(schema, keyword, must);
  return k_no_value;
}

void schema_reader::read_types(value_id schema, schema_facts& out) {
  const value_id at = tree_.find(schema, "type");
  if (at == k_no_value) return;
  std::uint8_t bits = 0;
  const auto add = [&](value_id word) {
    const std::uint8_t type = tree_[word].kind == json_kind::string ? type_of(tree_[word].text) : 0;
    if (type == 0) refuse(schema, "type", "must name types of JSON");
    bits = static_cast<std::uint8_t>(bits | type);
  };
  if (tree_[at].kind == json_kind::array) {
    for (const value_id word : tree_[at].items) add(word);
  } else {
    add(at);
  }
  out.types = static_cast<std::uint8_t>(out.types & bits);
}

void schema_reader::read_values(value_id schema, schema_facts& out) {
  std::optional<std::vector<value_id>> here;
  const value_id list = member(schema, "enum", json_kind::array, "must be an array");
  if (list != k_no_value) {
    if (tree_[list].items.size() > k_enum_values_max) {
      return refuse(schema, "enum", "has more than " + std::to_string(k_enum_values_max) + " values");
    }
    here = tree_[list].items;
  }
  const auto keep_common = [&](const std::vector<value_id>& others) {
    std::set<std::string_view> known;
    for (const value_id v : others) known.insert(identity(v));
    steps_.spend(4 * (others.size() + here->size()));
    std::erase_if(*here, [&](value_id v) { return !known.contains(identity(v)); });
  };
  if (const value_id only = tree_.find(schema, "const"); only != k_no_value) {
    if (here) {
      keep_common({only});
    } else {
      here = {only};
    }
  }
  if (!here) return;
  if (out.values) keep_common(*out.values);
  out.values = std::move(here);
}

void schema_reader::read_bound(value_id schema, std::string_view keyword, bool high, bool exclusive,
                               number_bounds& out) {
  const value_id at = tree_.find(schema, keyword);
  if (at == k_no_value) return;
  const json_value& value = tree_[at];
  if (value.kind != json_kind::integer && value.kind != json_kind::fraction) {
    return refuse(schema, keyword, "must be a number");
  }
  const bool plain = value.text.find_first_of("eE") == value.text.npos;
  if (!plain || value.text.size() > 2 * k_number_digits_max) {
    return refuse(schema, keyword, "has too many digits");
  }
  auto& bound = high ? out.high : out.low;
  const int order = bound ? compare_decimals(value.text, bound->decimal) * (high ? -1 : 1) : 1;
  if (order > 0) bound = number_bound{value.text, exclusive};
  if (order == 0) bound->exclusive = bound->exclusive || exclusive;
}

void schema_reader::read_numbers(value_id schema, schema_facts& out) {
  read_bound(schema, "minimum", false, false, out.bounds);
  read_bound(schema, "exclusiveMinimum", false, true, out.bounds);
  read_bound(schema, "maximum", true, false, out.bounds);
  read_bound(schema, "exclusiveMaximum", true, true, out.bounds);
}

std::optional<std::uint32_t> schema_reader::read_count(value_id schema, std::string_view keyword) {
  const value_id at = tree_.find(schema, keyword);
  if (at == k_no_value) return std::nullopt;
  const std::string& text = tree_[at].text;
  const bool number = tree_[at].kind == json_kind::integer && !text.starts_with('-');
  if (!number || text.size() > 9 || std::stoll(text) > k_count_max) {
    refuse(schema, keyword, "must be a whole number from 0 to " + std::to_string(k_count_max));
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(std::stoll(text));
}

void schema_reader::read_strings(value_id schema, schema_facts& out) {
  if (const auto min = read_count(schema, "minLength")) out.length_min = std::max(out.length_min, *min);
  if (const auto max = read_count(schema, "maxLength")) out.length_max = std::min(out.length_max, *max);
  const auto add = [&](std::string text, std::string_view keyword) {
    if (pattern(text) == nullptr) {
      const auto why = compile_pattern(text);
      return refuse(schema, keyword, why ? "is too large" : why.error().detail);
    }
    const auto at = std::lower_bound(out.patterns.begin(), out.patterns.end(), text);
    if (at == out.patterns.end() || *at != text) out.patterns.insert(at, std::move(text));
  };
  const value_id given = member(schema, "pattern", json_kind::string, "must be a string");
  if (given != k_no_value) add(tree_[given].text, "pattern");
  const value_id format = member(schema, "format", json_kind::string, "must be a string");
  if (format == k_no_value || is_in(k_number_formats, tree_[format].text)) return;
  for (const auto& known : k_formats) {
    if (known.name == tree_[format].text) return add(std::string(known.pattern), "format");
  }
  refuse(schema, "format", "supports date, time, date-time, uuid, ipv4 and email alone");
}

const char_automaton* schema_reader::pattern(const std::string& text) {
  const auto [at, fresh] = patterns_.try_emplace(text);
  if (fresh && steps_.spend(text.size() + 1)) {
    if (auto compiled = compile_pattern(text)) {
      at->second = std::move(*compiled);
      steps_.spend(k_pattern_state_steps * at->second->states.size());
    }
  }
  return at->second ? &*at->second : nullptr;
}

}  // namespace weir::engine::structure
