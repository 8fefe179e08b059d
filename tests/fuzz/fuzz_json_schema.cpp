// Any bytes as a schema: refused with a reason, or a grammar in which whatever is allowed can be finished.
// The walk through it is decided by the schema's own bytes.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "engine/structure/answer_grammar.hpp"
#include "engine/structure/automaton.hpp"
#include "engine/structure/json_tree.hpp"

namespace {

using namespace weir::engine::structure;

constexpr int k_walk_bytes = 256;

void walk(const answer_grammar& made, const std::uint8_t* data, std::size_t size) {
  automaton walked(made.rules, 0);
  place_id at = walked.start();
  std::string text;
  for (int i = 0; i < k_walk_bytes && walked.goes_on(at) && !walked.overloaded(); ++i) {
    std::vector<symbol> ways;
    for (symbol b = 0; b < k_first_marker; ++b) {
      if (walked.step(at, b) != k_dead) ways.push_back(b);
    }
    if (ways.empty() && !walked.overloaded()) std::abort();
    if (ways.empty()) return;
    const symbol next = ways[(data[static_cast<std::size_t>(i) % size] + i) % ways.size()];
    text += static_cast<char>(next);
    at = walked.step(at, next);
  }
  if (walked.overloaded()) return;
  if (!walked.goes_on(at) && !walked.is_complete(at)) std::abort();
  // What is complete is JSON (an object may hold a key twice, which a schema may not).
  if (!walked.is_complete(at)) return;
  const auto tree = json_tree::parse(text);
  if (!tree && tree.error().detail.find("is no JSON") != std::string::npos) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string schema(reinterpret_cast<const char*>(data), size);
  const auto made = compile_answer({.text = text_form::json_schema, .schema_json = schema}, nullptr);
  if (!made) {
    if (made.error().detail.empty()) std::abort();
    return 0;
  }
  walk(*made, data, size);
  return 0;
}
