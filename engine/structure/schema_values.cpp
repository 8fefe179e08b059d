// Values of a schema's own text held against schemas: which of an enum remain, and what contradicts itself.
#include <algorithm>

#include "engine/structure/schema_facts.hpp"

namespace weir::engine::structure {

namespace {

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

bool inside(const number_bounds& bounds, std::string_view number) {
  const auto order = [&](const number_bound& bound) { return compare_decimals(number, bound.decimal); };
  if (number.find_first_of("eE") != number.npos) return !bounds.low && !bounds.high;
  if (bounds.low && order(*bounds.low) < (bounds.low->exclusive ? 1 : 0)) return false;
  return !bounds.high || order(*bounds.high) <= (bounds.high->exclusive ? -1 : 0);
}

std::uint8_t type_of(const json_value& value) {
  switch (value.kind) {
    case json_kind::null:
      return k_null;
    case json_kind::boolean:
      return k_boolean;
    case json_kind::integer:
      return k_whole;
    case json_kind::fraction:
      return k_fraction;
    case json_kind::string:
      return k_string;
    case json_kind::array:
      return k_array;
    case json_kind::object:
      break;
  }
  return k_object;
}

}  // namespace

const std::string& schema_reader::identity(value_id value) {
  const auto [at, fresh] = identities_.try_emplace(value);
  if (fresh) {
    at->second = tree_.identity(value);
    steps_.spend(1 + at->second.size() / 16);
  }
  return at->second;
}

bool schema_reader::holds(const conjunction& schemas, value_id value) {
  const auto ways = alternatives(schemas);
  return std::any_of(ways.begin(), ways.end(),
                     [&](const conjunction& option) { return ok() && holds(facts_of(option), value); });
}

bool schema_reader::holds(const schema_facts& facts, value_id id) {
  const json_value& value = tree_[id];
  if (!steps_.spend(1) || (facts.types & type_of(value)) == 0) return false;
  if (facts.values) {
    const std::string& wanted = identity(id);
    const bool known = std::any_of(facts.values->begin(), facts.values->end(),
                                   [&](value_id v) { return steps_.spend(2) && identity(v) == wanted; });
    if (!known) return false;
  }
  switch (value.kind) {
    case json_kind::integer:
    case json_kind::fraction:
      return inside(facts.bounds, value.text);
    case json_kind::string: {
      const std::size_t count = characters(value.text);
      if (count < facts.length_min || count > facts.length_max) return false;
      return std::all_of(facts.patterns.begin(), facts.patterns.end(), [&](const std::string& text) {
        const auto* automaton = pattern(text);
        return automaton != nullptr && automaton->accepts(value.text);
      });
    }
    case json_kind::array:
      if (value.items.size() < facts.items_min || value.items.size() > facts.items_max) return false;
      for (std::size_t i = 0; i < value.items.size(); ++i) {
        if (!holds(i < facts.prefix.size() ? facts.prefix[i] : facts.items, value.items[i])) return false;
      }
      return true;
    case json_kind::object:
      break;
    default:
      return true;
  }
  for (std::size_t i = 0; i < value.keys.size(); ++i) {
    const auto known = std::find_if(facts.properties.begin(), facts.properties.end(),
                                    [&](const auto& p) { return p.first == value.keys[i]; });
    if (!holds(known == facts.properties.end() ? facts.other_properties : known->second, value.items[i]))
      return false;
  }
  return std::all_of(facts.required.begin(), facts.required.end(),
                     [&](const std::string& name) { return tree_.find(id, name) != k_no_value; });
}

bool schema_reader::contradict(const schema_facts& facts, int depth) {
  if (facts.types == 0) return true;
  if (facts.values) {
    schema_facts rest = facts;
    rest.values.reset();
    return std::none_of(facts.values->begin(), facts.values->end(),
                        [&](value_id v) { return ok() && holds(rest, v); });
  }
  const auto& [low, high] = facts.bounds;
  const int order = low && high ? compare_decimals(low->decimal, high->decimal) : -1;
  const bool numbers = order > 0 || (order == 0 && (low->exclusive || high->exclusive));
  const bool strings = facts.length_min > facts.length_max;
  const bool arrays = facts.items_min > facts.items_max;
  bool objects = false;
  for (const auto& name : facts.required) {
    if (depth == 0 || objects || (facts.types & k_object) == 0) break;
    const auto known = std::find_if(facts.properties.begin(), facts.properties.end(),
                                    [&](const auto& p) { return p.first == name; });
    const auto ways = alternatives(known->second);
    objects = std::all_of(ways.begin(), ways.end(), [&](const conjunction& option) {
      return ok() && contradict(facts_of(option), depth - 1);
    });
  }
  const int possible = facts.types & ~((numbers ? k_whole | k_fraction : 0) | (strings ? k_string : 0) |
                                       (arrays ? k_array : 0) | (objects ? k_object : 0));
  return possible == 0;
}

}  // namespace weir::engine::structure
