// The published JSON Schema test suite (Debian's json-schema-test-suite): every schema is compiled or
// refused; of what is compiled, each valid instance has a text that is accepted and no invalid one has.
//
// An instance is written without white space, whole numbers without a point, in every order of its keys (up
// to k_orders_max): the grammar knows one order, so that of a valid instance some text is accepted, of an
// invalid one none.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "engine/structure/json_tree.hpp"
#include "tests/engine/structure/accepts.hpp"

namespace {

using namespace weir::engine::structure;

const std::filesystem::path k_suite = "/usr/share/json-schema-test-suite/tests";
constexpr std::size_t k_orders_max = 5000;

using texts = std::vector<std::string>;

texts orders_of(const json_tree& tree, value_id id);

// Each text of `heads` with each of `tails` behind it.
texts joined(const texts& heads, const texts& tails) {
  texts out;
  for (const auto& head : heads) {
    for (const auto& tail : tails) {
      if (out.size() < k_orders_max) out.push_back(head + tail);
    }
  }
  return out;
}

texts orders_of_object(const json_tree& tree, value_id id) {
  const json_value& value = tree[id];
  std::vector<std::size_t> order(value.keys.size());
  std::iota(order.begin(), order.end(), 0);
  texts out;
  do {
    texts here{"{"};
    for (std::size_t i = 0; i < order.size(); ++i) {
      here = joined(here, {(i > 0 ? "," : "") + canonical_string(value.keys[order[i]]) + ":"});
      here = joined(here, orders_of(tree, value.items[order[i]]));
    }
    for (auto& text : here) out.push_back(text + "}");
  } while (out.size() < k_orders_max && std::next_permutation(order.begin(), order.end()));
  return out;
}

texts orders_of(const json_tree& tree, value_id id) {
  if (tree[id].kind == json_kind::object) return orders_of_object(tree, id);
  if (tree[id].kind != json_kind::array) return {tree.dump(id)};
  texts out{"["};
  for (std::size_t i = 0; i < tree[id].items.size(); ++i) {
    if (i > 0) out = joined(out, {","});
    out = joined(out, orders_of(tree, tree[id].items[i]));
  }
  return joined(out, {"]"});
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

struct counts {
  int groups = 0;
  int compiled = 0;
  int valid = 0;
  int invalid = 0;
  std::map<std::string, int> refused;  // by what was refused
};

// `draft` decides whether keywords beside $ref count.
std::string with_draft(const json_tree& tree, value_id schema, const std::string& draft) {
  const std::string text = tree.dump(schema);
  if (tree[schema].kind != json_kind::object || tree.find(schema, "$schema") != k_no_value) return text;
  const std::string mark = R"("$schema":"http://json-schema.org/)" + draft + R"(/schema#")";
  return "{" + mark + (text.size() > 2 ? "," : "") + text.substr(1);
}

void run_group(const json_tree& tree, value_id group, const std::string& draft, counts& out) {
  ++out.groups;
  INFO(tree[tree.find(group, "description")].text);
  schema_under_test schema(with_draft(tree, tree.find(group, "schema"), draft));
  const value_id tests = tree.find(group, "tests");
  if (!schema.compiled()) {
    const bool empty = schema.refusal().find("no value") != std::string::npos;
    for (const value_id test : tree[tests].items) {
      // A schema that nothing satisfies is refused as that.
      if (empty) CHECK_FALSE(tree[tree.find(test, "valid")].truth);
    }
    ++out.refused[schema.refusal()];
    return;
  }
  ++out.compiled;
  for (const value_id test : tree[tests].items) {
    const auto orders = orders_of(tree, tree.find(test, "data"));
    INFO(tree[tree.find(test, "description")].text << ": " << orders[0]);
    const bool accepted = std::any_of(orders.begin(), orders.end(),
                                      [&](const std::string& text) { return schema.accepts(text); });
    const bool valid = tree[tree.find(test, "valid")].truth;
    CHECK(accepted == valid);
    ++(valid ? out.valid : out.invalid);
  }
}

}  // namespace

TEST_CASE("the JSON Schema test suite", "[structure]") {
  REQUIRE(std::filesystem::exists(k_suite));
  counts total;
  for (const std::string draft : {"draft4", "draft6", "draft7"}) {
    counts here;
    std::set<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(k_suite / draft)) {
      if (entry.path().extension() == ".json") files.insert(entry.path());
    }
    for (const auto& file : files) {
      INFO(file);
      const auto tree = json_tree::parse(read_text(file));
      REQUIRE(tree);
      const int before = here.valid + here.invalid;
      const int compiled = here.compiled, groups = here.groups;
      for (const value_id group : (*tree)[tree->root()].items)
        run_group(*tree, group, draft.substr(0, 5) + "-0" + draft.substr(5), here);
      std::cout << draft << " " << file.stem().string() << ": " << here.compiled - compiled << " of "
                << here.groups - groups << " schemas, " << here.valid + here.invalid - before
                << " instances\n";
    }
    for (const auto& [why, times] : here.refused) std::cout << "  refused " << times << "x " << why << "\n";
    total.groups += here.groups;
    total.compiled += here.compiled;
    total.valid += here.valid;
    total.invalid += here.invalid;
  }
  std::cout << total.compiled << " of " << total.groups << " schemas compiled; " << total.valid
            << " valid and " << total.invalid << " invalid instances\n";
}
