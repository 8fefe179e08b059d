#include "engine/structure/schema_facts.hpp"

#include <algorithm>
#include <utility>

namespace weir::engine::structure {

namespace {

constexpr std::size_t k_expansion_depth_max = 128;  // references and combinations behind one another
constexpr std::size_t k_pointer_bytes_max = 240;    // of an error's text

void add(conjunction& out, value_id schema) {
  const auto at = std::lower_bound(out.begin(), out.end(), schema);
  if (at == out.end() || *at != schema) out.insert(at, schema);
}

conjunction merged(const conjunction& a, const conjunction& b) {
  conjunction out;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

// Cut at a character's begin.
std::string shortened(std::string text) {
  if (text.size() <= k_pointer_bytes_max) return text;
  std::size_t end = k_pointer_bytes_max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

}  // namespace

schema_reader::schema_reader(const json_tree& tree, grammar_builder& steps) : tree_(tree), steps_(steps) {
  if (tree_[tree_.root()].kind != json_kind::object) return;
  const value_id draft = tree_.find(tree_.root(), "$schema");
  if (draft == k_no_value || tree_[draft].kind != json_kind::string) return;
  for (const std::string_view old : {"draft-03", "draft-04", "draft-06", "draft-07"}) {
    lone_references_ = lone_references_ || tree_[draft].text.find(old) != std::string::npos;
  }
}

std::string schema_reader::why() const {
  return fault_.empty() ? std::string(steps_.why()) : fault_;
}

void schema_reader::refuse(value_id at, std::string_view keyword, std::string_view what) {
  if (!ok()) return;
  fault_ = "'" + shortened(tree_.pointer(at)) + "': ";
  if (!keyword.empty()) fault_ += "the keyword '" + shortened(std::string(keyword)) + "' ";
  fault_ += what;
}

schema_reader::options schema_reader::cross(const options& a, const options& b, value_id at) {
  options out;
  for (const auto& x : a) {
    for (const auto& y : b) {
      if (!steps_.spend(1 + x.size() + y.size())) return {};
      auto both = merged(x, y);
      if (both.size() > k_conjuncts_max) refuse(at, "", "combines too many schemas for one value");
      if (std::find(out.begin(), out.end(), both) == out.end()) out.push_back(std::move(both));
      if (!steps_.spend(out.size())) return {};
    }
  }
  if (out.size() > k_alternatives_max) {
    refuse(at, "", "combines to more than " + std::to_string(k_alternatives_max) + " alternatives");
  }
  return ok() ? std::move(out) : options{};
}

// Refuses branches of which two might hold at once.
void schema_reader::check_exclusive(value_id schema, const std::vector<options>& branches) {
  for (std::size_t i = 0; i < branches.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      for (const auto& pair : cross(branches[i], branches[j], schema)) {
        if (!ok()) return;
        if (!contradict(facts_of(pair))) {
          return refuse(
              schema, "oneOf",
              "has branches that are not seen to exclude each other (by type, enum, const or required "
              "keys); use anyOf");
        }
      }
    }
  }
}

schema_reader::options schema_reader::any_of(value_id schema, std::string_view keyword, std::size_t depth) {
  const value_id list = member(schema, keyword, json_kind::array, "must be an array of schemas");
  if (list == k_no_value) return {{}};
  if (tree_[list].items.empty()) refuse(schema, keyword, "must not be empty");
  std::vector<options> branches;
  for (const value_id branch : tree_[list].items) branches.push_back(expand(branch, depth + 1));
  if (keyword == "oneOf") check_exclusive(schema, branches);
  options out;
  for (auto& branch : branches) {
    for (auto& option : branch) {
      if (!steps_.spend(1 + out.size())) return {};
      if (std::find(out.begin(), out.end(), option) == out.end()) out.push_back(std::move(option));
    }
  }
  return out;
}

schema_reader::options schema_reader::expand(value_id schema, std::size_t depth) {
  if (!steps_.spend(1) || !ok()) return {};
  const json_value& value = tree_[schema];
  if (value.kind == json_kind::boolean) return value.truth ? options{{}} : options{};
  if (value.kind != json_kind::object) {
    refuse(schema, "", "is no schema: neither an object nor true nor false");
    return {};
  }
  if (const auto known = expanded_.find(schema); known != expanded_.end()) return known->second;
  if (std::find(path_.begin(), path_.end(), schema) != path_.end()) {
    refuse(schema, "", "refers to itself without anything in between");
    return {};
  }
  if (depth > k_expansion_depth_max) {
    refuse(schema, "", "stands behind more than " + std::to_string(k_expansion_depth_max) + " references");
    return {};
  }
  check_keywords(schema);
  path_.push_back(schema);
  options out{{schema}};
  const value_id reference = member(schema, "$ref", json_kind::string, "must be a string");
  if (reference != k_no_value) {
    const value_id target = tree_.resolve(tree_[reference].text);
    if (target == k_no_value) {
      refuse(schema, "$ref", "does not lead anywhere in this schema");
    } else {
      options behind = expand(target, depth + 1);
      out = lone_references_ ? std::move(behind) : cross(out, behind, schema);
    }
  }
  if (reference == k_no_value || !lone_references_) {
    const value_id all = member(schema, "allOf", json_kind::array, "must be an array of schemas");
    if (all != k_no_value) {
      for (const value_id part : tree_[all].items) out = cross(out, expand(part, depth + 1), schema);
    }
    for (const std::string_view keyword : {"anyOf", "oneOf"}) {
      if (tree_.find(schema, keyword) != k_no_value) out = cross(out, any_of(schema, keyword, depth), schema);
    }
  }
  path_.pop_back();
  if (ok()) expanded_.emplace(schema, out);
  return out;
}

std::vector<conjunction> schema_reader::alternatives(const conjunction& schemas) {
  std::vector<value_id> outer;
  outer.swap(path_);
  options out{{}};
  for (const value_id schema : schemas) out = cross(out, expand(schema, 0), schema);
  path_.swap(outer);
  return out;
}

void schema_reader::merge_arrays(const conjunction& schemas, schema_facts& out) {
  struct rows {
    std::vector<value_id> prefix;
    value_id rest = k_no_value;
  };
  std::vector<rows> all;
  std::size_t prefix_count = 0;
  for (const value_id schema : schemas) {
    if (const auto min = read_count(schema, "minItems")) out.items_min = std::max(out.items_min, *min);
    if (const auto max = read_count(schema, "maxItems")) out.items_max = std::min(out.items_max, *max);
    rows& r = all.emplace_back();
    const value_id items = tree_.find(schema, "items");
    const bool listed = items != k_no_value && tree_[items].kind == json_kind::array;  // before 2020-12
    const value_id list =
        listed ? items : member(schema, "prefixItems", json_kind::array, "must be an array");
    r.rest = listed ? tree_.find(schema, "additionalItems") : items;
    if (list != k_no_value) r.prefix = tree_[list].items;
    prefix_count = std::max(prefix_count, r.prefix.size());
    if (r.prefix.size() > k_prefix_items_max) {
      return refuse(schema, listed ? "items" : "prefixItems",
                    "has more than " + std::to_string(k_prefix_items_max) + " entries");
    }
  }
  out.prefix.resize(prefix_count);
  for (const rows& r : all) {
    for (std::size_t i = 0; i < prefix_count && steps_.spend(1); ++i) {
      const value_id at = i < r.prefix.size() ? r.prefix[i] : r.rest;
      if (at != k_no_value) add(out.prefix[i], at);
    }
    if (r.rest != k_no_value) add(out.items, r.rest);
  }
  for (const value_id schema : schemas) {
    const value_id unique = tree_.find(schema, "uniqueItems");
    if (unique == k_no_value || (tree_[unique].kind == json_kind::boolean && !tree_[unique].truth)) continue;
    if (out.items_max > 1) refuse(schema, "uniqueItems", "is not supported");
  }
}

void schema_reader::merge_objects(const conjunction& schemas, schema_facts& out) {
  std::map<std::string, std::size_t> index;
  const auto index_of = [&](const std::string& name) {
    const auto [at, fresh] = index.try_emplace(name, out.properties.size());
    if (fresh) out.properties.emplace_back(name, conjunction{});
    return at->second;
  };
  std::vector<value_id> declared(schemas.size());
  for (std::size_t i = 0; i < schemas.size(); ++i) {
    declared[i] = member(schemas[i], "properties", json_kind::object, "must be an object of schemas");
    const value_id list = member(schemas[i], "required", json_kind::array, "must be an array of strings");
    if (declared[i] != k_no_value) {
      for (const auto& name : tree_[declared[i]].keys) index_of(name);
    }
    if (list == k_no_value) continue;
    for (const value_id name : tree_[list].items) {
      if (tree_[name].kind != json_kind::string)
        refuse(schemas[i], "required", "must be an array of strings");
      out.required.push_back(tree_[name].text);
    }
  }
  for (const auto& name : out.required) index_of(name);
  std::sort(out.required.begin(), out.required.end());
  out.required.erase(std::unique(out.required.begin(), out.required.end()), out.required.end());
  if (out.properties.size() > k_properties_max) {
    return refuse(schemas[0], "properties", "has more than " + std::to_string(k_properties_max) + " entries");
  }
  for (std::size_t i = 0; i < schemas.size(); ++i) {
    const value_id others = tree_.find(schemas[i], "additionalProperties");
    std::vector<bool> seen(out.properties.size());
    for (std::size_t k = 0; declared[i] != k_no_value && k < tree_[declared[i]].keys.size(); ++k) {
      const std::size_t at = index.at(tree_[declared[i]].keys[k]);
      add(out.properties[at].second, tree_[declared[i]].items[k]);
      seen[at] = true;
    }
    if (others == k_no_value || !steps_.spend(seen.size() + 1)) continue;
    for (std::size_t at = 0; at < seen.size(); ++at) {
      if (!seen[at]) add(out.properties[at].second, others);
    }
    add(out.other_properties, others);
  }
  for (const value_id schema : schemas) {
    const auto min = read_count(schema, "minProperties");
    if (min && *min > out.required.size())
      refuse(schema, "minProperties", "may not exceed the required ones");
  }
}

schema_facts schema_reader::facts_of(const conjunction& alternative) {
  schema_facts out;
  for (const value_id schema : alternative) {
    if (!ok()) return out;
    read_types(schema, out);
    read_values(schema, out);
    read_numbers(schema, out);
    read_strings(schema, out);
  }
  if ((out.types & k_array) != 0) merge_arrays(alternative, out);
  if ((out.types & k_object) != 0) merge_objects(alternative, out);
  return out;
}

}  // namespace weir::engine::structure
