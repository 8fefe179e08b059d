#include "engine/structure/schema_compiler.hpp"

#include <algorithm>
#include <utility>

namespace weir::engine::structure {

schema_compiler::schema_compiler(const json_tree& schema, grammar_builder& out, json_rules& shared)
    : out_(out), shared_(shared), reader_(schema, out) {}

result<rule_id> schema_compiler::compile(std::uint8_t types) {
  const rule_id root = out_.add_rule();
  pending_.push_back({{reader_.tree().root()}, root, types});
  build_pending();
  if (!reader_.ok()) return fail(errc::bad_request, reader_.why());
  return root;
}

rule_id schema_compiler::rule_of(const conjunction& schemas) {
  const auto [at, fresh] = rules_.try_emplace(schemas, 0);
  if (fresh) {
    at->second = out_.add_rule();
    if (out_.ok()) pending_.push_back({schemas, at->second, k_any_type});
  }
  return at->second;
}

void schema_compiler::build_pending() {
  while (!pending_.empty() && reader_.ok()) {
    const draft next = std::move(pending_.back());
    pending_.pop_back();
    for (const auto& alternative : reader_.alternatives(next.schemas)) {
      schema_facts facts = reader_.facts_of(alternative);
      if (!reader_.ok()) return;
      facts.types = static_cast<std::uint8_t>(facts.types & next.types);
      add_alternative(out_.start(next.rule), facts, out_.end(next.rule));
    }
  }
}

void schema_compiler::add_alternative(state_id from, const schema_facts& facts, state_id to) {
  if (!reader_.ok()) return;
  if (facts.values) return add_values(from, facts, to);
  if ((facts.types & k_null) != 0) out_.text(from, "null", to);
  if ((facts.types & k_boolean) != 0) {
    out_.text(from, "true", to);
    out_.text(from, "false", to);
  }
  if ((facts.types & (k_whole | k_fraction)) != 0) add_numbers(from, facts, to);
  if ((facts.types & k_string) != 0) out_.call(from, string_rule(facts), to);
  if ((facts.types & k_array) != 0) add_array(from, facts, to);
  if ((facts.types & k_object) != 0) add_object(from, facts, to);
}

void schema_compiler::add_values(state_id from, const schema_facts& facts, state_id to) {
  schema_facts rest = facts;
  rest.values.reset();
  std::vector<std::string> texts;
  std::size_t bytes = 0;
  for (const value_id value : *facts.values) {
    if (!reader_.ok()) return;
    if (!reader_.holds(rest, value)) continue;
    bytes += texts.emplace_back(reader_.tree().dump(value)).size();
    if (bytes > k_enum_bytes_max) {
      return reader_.refuse(
          value, "",
          "and the values beside it have more than " + std::to_string(k_enum_bytes_max) + " bytes");
    }
  }
  shared_.strings.one_of(from, texts, to);
}

void schema_compiler::add_numbers(state_id from, const schema_facts& facts, state_id to) {
  const bool whole = (facts.types & k_fraction) == 0;
  const auto& [low, high] = facts.bounds;
  if (!low && !high) return out_.call(from, shared_.numbers.any(whole), to);
  std::string key = whole ? "whole " : "any ";
  for (const auto* bound : {&low, &high}) {
    key += *bound ? ((*bound)->exclusive ? "(" : "[") + (*bound)->decimal : "-";
    key += ' ';
  }
  const auto [at, fresh] = numbers_.try_emplace(std::move(key), 0);
  if (fresh) at->second = shared_.numbers.between(facts.bounds, whole);
  out_.call(from, at->second, to);
}

rule_id schema_compiler::string_rule(const schema_facts& facts) {
  if (facts.patterns.empty() && facts.length_min <= facts.length_max) {
    return shared_.strings.counted(facts.length_min, facts.length_max);
  }
  std::string key = std::to_string(facts.length_min) + " " + std::to_string(facts.length_max);
  for (const auto& text : facts.patterns) key += "\n" + text;
  const auto [at, fresh] = strings_.try_emplace(std::move(key), 0);
  if (!fresh) return at->second;
  at->second = out_.add_rule();
  if (facts.length_min > facts.length_max) return at->second;
  result<char_automaton> chars = any_string();
  for (const auto& text : facts.patterns) {
    const auto* one = reader_.pattern(text);
    if (one != nullptr && chars) chars = both(*chars, *one);
  }
  if (chars && (facts.length_min > 0 || facts.length_max != k_no_limit)) {
    chars = with_length(*chars, facts.length_min, facts.length_max);
  }
  if (!chars) {
    reader_.refuse(reader_.tree().root(), "pattern", "or its length limits: " + chars.error().detail);
    return at->second;
  }
  // 16: what a state's products cost, beside the states that it becomes.
  if (out_.spend(16 * chars->states.size())) at->second = shared_.strings.of(*chars);
  return at->second;
}

// `, item`, by what the item must satisfy.
rule_id schema_compiler::next_item(const conjunction& item) {
  const auto [at, fresh] = next_items_.try_emplace(item, 0);
  if (!fresh) return at->second;
  const rule_id rule = at->second = out_.add_rule();
  const state_id comma = out_.add_state(), value = out_.add_state();
  out_.read(out_.start(rule), ',', comma);
  shared_.strings.space(comma, value);
  out_.call(value, rule_of(item), out_.end(rule));
  return rule;
}

void schema_compiler::add_array(state_id from, const schema_facts& facts, state_id to) {
  const auto min = facts.items_min, max = facts.items_max;
  if (min > max) return;
  const state_id open = out_.add_state(), first = out_.add_state();
  const state_id close = out_.add_state(), last = out_.add_state();
  out_.read(from, '[', open);
  shared_.strings.space(open, first);
  shared_.strings.space(close, last);
  out_.read(last, ']', to);
  if (min == 0) out_.read(first, ']', to);
  if (max == 0) return;
  const auto item = [&](std::size_t i) -> const conjunction& {
    return i < facts.prefix.size() ? facts.prefix[i] : facts.items;
  };
  state_id at = out_.add_state();
  out_.call(first, rule_of(item(0)), at);
  std::uint32_t count = 1;
  for (; count < facts.prefix.size() && count < max && out_.ok(); ++count) {
    if (count >= min) out_.skip(at, close);
    const state_id next = out_.add_state();
    out_.call(at, next_item(item(count)), next);
    at = next;
  }
  if (count >= max) return out_.skip(at, close);
  const std::uint32_t more = min > count ? min - count : 0;
  out_.call(at, next_item(facts.items), close, more, max == k_no_limit ? k_no_limit : max - count);
}

// `: value`.
void schema_compiler::add_member(state_id from, const conjunction& value, state_id to) {
  const state_id colon = out_.add_state(), at = out_.add_state();
  out_.read(from, ':', colon);
  shared_.strings.space(colon, at);
  out_.call(at, rule_of(value), to);
}

rule_id schema_compiler::other_name(const schema_facts& facts) {
  if (facts.properties.empty()) return shared_.strings.any();
  std::vector<std::string> names;
  std::string key = "names";
  for (const auto& [name, value] : facts.properties) {
    names.push_back(name);
    key += '\n' + canonical_string(name);
  }
  const auto [at, fresh] = strings_.try_emplace(std::move(key), 0);
  if (!fresh) return at->second;
  const auto chars = all_but(names);
  if (!chars) {
    reader_.refuse(reader_.tree().root(), "properties", "beside others: " + chars.error().detail);
  } else if (out_.spend(16 * chars->states.size())) {
    at->second = shared_.strings.of(*chars);
  }
  return at->second;
}

// Keys in the order of `properties`, then all others. `next[i]` is before the key of property i or a later
// one, `behind[i]` after the value of one before it.
void schema_compiler::add_object(state_id from, const schema_facts& facts, state_id to) {
  const std::size_t count = facts.properties.size();
  std::vector<state_id> next(count + 1), behind(count + 1);
  for (auto& s : next) s = out_.add_state();
  for (auto& s : behind) s = out_.add_state();
  const state_id open = out_.add_state(), first = out_.add_state();
  const state_id close = out_.add_state(), last = out_.add_state();
  out_.read(from, '{', open);
  shared_.strings.space(open, first);
  out_.skip(first, next[0]);
  shared_.strings.space(close, last);
  out_.read(last, '}', to);
  std::vector<bool> needed(count);
  for (std::size_t i = 0; i < count; ++i) {
    needed[i] = std::binary_search(facts.required.begin(), facts.required.end(), facts.properties[i].first);
  }
  if (facts.required.empty()) out_.read(first, '}', to);
  for (std::size_t i = 0; i <= count && out_.ok(); ++i) {
    const state_id comma = out_.add_state();
    out_.read(behind[i], ',', comma);
    shared_.strings.space(comma, next[i]);
    if (std::find(needed.begin() + static_cast<std::ptrdiff_t>(i), needed.end(), true) == needed.end()) {
      out_.skip(behind[i], close);
    }
    if (i == count) break;
    const state_id key = out_.add_state();
    out_.text(next[i], canonical_string(facts.properties[i].first), key);
    add_member(key, facts.properties[i].second, behind[i + 1]);
    if (!needed[i]) out_.skip(next[i], next[i + 1]);
  }
  if (reader_.alternatives(facts.other_properties).empty()) return;
  const state_id name = out_.add_state();
  out_.call(next[count], other_name(facts), name);
  add_member(name, facts.other_properties, behind[count]);
}

}  // namespace weir::engine::structure
