// What schemas say about one value, keyword by keyword, after references and combinations are resolved.
//
// A value must often satisfy several schemas at once (allOf, `properties` beside additionalProperties, ...):
// a conjunction is a sorted list of schemas, and facts_of() merges what they say. schema_reader turns a
// conjunction into alternatives of which at least one must hold (anyOf, oneOf), each a list of schemas whose
// own keywords count alone. Pure but for the budget of steps; one compilation, one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/structure/char_automaton.hpp"
#include "engine/structure/grammar.hpp"
#include "engine/structure/json_tree.hpp"
#include "engine/structure/number_rules.hpp"

namespace weir::engine::structure {

using conjunction = std::vector<value_id>;  // sorted, unique; empty: any value

enum type_bit : std::uint8_t {
  k_null = 1,
  k_boolean = 2,
  k_whole = 4,
  k_fraction = 8,
  k_string = 16,
  k_array = 32,
  k_object = 64,
  k_any_type = 127,
};

struct schema_facts {
  std::uint8_t types = k_any_type;
  number_bounds bounds;
  std::uint32_t length_min = 0;
  std::uint32_t length_max = k_no_limit;
  std::vector<std::string> patterns;  // sorted, unique
  std::uint32_t items_min = 0;
  std::uint32_t items_max = k_no_limit;
  std::vector<conjunction> prefix;
  conjunction items;                                            // behind the prefix
  std::vector<std::pair<std::string, conjunction>> properties;  // in the schemas' order
  conjunction other_properties;
  std::vector<std::string> required;            // sorted, unique; all are among `properties`
  std::optional<std::vector<value_id>> values;  // of enum and const; not yet held against the rest
};

class schema_reader final {
 public:
  // `steps` is the budget; REQUIRES: both outlive the reader.
  schema_reader(const json_tree& tree, grammar_builder& steps);

  bool ok() const noexcept { return fault_.empty() && steps_.ok(); }
  // "'#/properties/a': what is wrong".
  std::string why() const;

  std::vector<conjunction> alternatives(const conjunction& schemas);
  schema_facts facts_of(const conjunction& alternative);

  // Whether a value of the tree satisfies all schemas.
  bool holds(const conjunction& schemas, value_id value);
  bool holds(const schema_facts& facts, value_id value);

  // No value can satisfy the facts: what can be seen without building their grammar.
  bool contradict(const schema_facts& facts, int depth = 2);

  // The automaton of a pattern; nothing where it is refused.
  const char_automaton* pattern(const std::string& text);

  // tree().identity(), once for each value.
  const std::string& identity(value_id value);

  void refuse(value_id at, std::string_view keyword, std::string_view what);
  const json_tree& tree() const noexcept { return tree_; }

 private:
  using options = std::vector<conjunction>;

  options expand(value_id schema, std::size_t depth);
  options cross(const options& a, const options& b, value_id at);
  options any_of(value_id schema, std::string_view keyword, std::size_t depth);
  void check_exclusive(value_id schema, const std::vector<options>& branches);
  void check_keywords(value_id schema);

  void read_types(value_id schema, schema_facts& out);
  void read_values(value_id schema, schema_facts& out);
  void read_numbers(value_id schema, schema_facts& out);
  void read_strings(value_id schema, schema_facts& out);
  void read_bound(value_id schema, std::string_view keyword, bool high, bool exclusive, number_bounds& out);
  std::optional<std::uint32_t> read_count(value_id schema, std::string_view keyword);
  void merge_arrays(const conjunction& schemas, schema_facts& out);
  void merge_objects(const conjunction& schemas, schema_facts& out);
  value_id member(value_id schema, std::string_view keyword, json_kind kind, std::string_view must);

  const json_tree& tree_;
  grammar_builder& steps_;
  std::string fault_;
  bool lone_references_ = false;  // $schema names a draft in which nothing beside $ref counts
  std::map<value_id, bool> checked_;
  std::vector<value_id> path_;  // schemas being expanded
  std::map<value_id, options> expanded_;
  std::map<std::string, std::optional<char_automaton>> patterns_;
  std::unordered_map<value_id, std::string> identities_;
};

}  // namespace weir::engine::structure
