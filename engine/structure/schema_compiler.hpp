// JSON Schema to rules of a grammar: every text that the grammar allows is JSON that satisfies the schema,
// and every value that satisfies it has a text there, but for what README.md lists (order of keys, spelling
// of numbers, white space). Keywords that cannot be kept exactly are refused by name, never passed over. A
// compiler belongs to one thread and one builder.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/result.hpp"
#include "engine/structure/grammar.hpp"
#include "engine/structure/json_tree.hpp"
#include "engine/structure/number_rules.hpp"
#include "engine/structure/schema_facts.hpp"
#include "engine/structure/string_rules.hpp"

namespace weir::engine::structure {

// Rules that all schemas of one grammar share.
struct json_rules {
  explicit json_rules(grammar_builder& out) : strings(out), numbers(out) {}

  string_rules strings;
  number_rules numbers;
};

class schema_compiler final {
 public:
  // REQUIRES: all three outlive the compiler.
  schema_compiler(const json_tree& schema, grammar_builder& out, json_rules& shared);

  // A rule for those values of the whole schema that are of these types. errc::bad_request says where in the
  // schema what was refused.
  result<rule_id> compile(std::uint8_t types = k_any_type);

 private:
  rule_id rule_of(const conjunction& schemas);
  void add_alternative(state_id from, const schema_facts& facts, state_id to);
  void add_values(state_id from, const schema_facts& facts, state_id to);
  void add_numbers(state_id from, const schema_facts& facts, state_id to);
  void add_strings(state_id from, const schema_facts& facts, state_id to);
  void add_array(state_id from, const schema_facts& facts, state_id to);
  void add_object(state_id from, const schema_facts& facts, state_id to);
  void add_member(state_id from, const conjunction& value, state_id to);
  rule_id next_item(const conjunction& item);
  rule_id string_rule(const schema_facts& facts);
  rule_id other_name(const schema_facts& facts);
  void build_pending();

  struct draft {
    conjunction schemas;
    rule_id rule;
    std::uint8_t types;
  };

  grammar_builder& out_;
  json_rules& shared_;
  schema_reader reader_;
  std::map<conjunction, rule_id> rules_;
  std::map<conjunction, rule_id> next_items_;
  std::map<std::string, rule_id> strings_;
  std::map<std::string, rule_id> numbers_;
  std::vector<draft> pending_;  // declared, not built: recursion stays flat
};

}  // namespace weir::engine::structure
