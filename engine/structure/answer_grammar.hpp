// What an answer may be, as a grammar: free text, JSON of a schema, or calls of declared functions with
// arguments that satisfy their schemas, all of it in the model's own markup. What it thinks before is free.
// Where both are allowed, JSON and calls exclude each other. Pure; any thread.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "engine/structure/grammar.hpp"
#include "engine/text/answer_markup.hpp"

namespace weir::engine::structure {

struct function_spec {
  std::string name;             // of letters, digits, '_' and '-'
  std::string parameters_json;  // a schema; empty: any object
  // The arguments must satisfy the schema. Otherwise they do so where it can be compiled, and are any object
  // where it cannot, as OpenAI has it without `strict`.
  bool strict = false;
};

enum class text_form { free, json_object, json_schema, none };
enum class call_rule { forbidden, allowed, required };

struct answer_spec {
  text_form text = text_form::free;  // none where calls are required
  std::string schema_json;           // of json_schema
  call_rule calls = call_rule::forbidden;
  bool parallel_calls = true;
  std::vector<function_spec> functions;  // that may be called
};

struct answer_grammar {
  grammar rules;
  std::vector<std::int32_t> markers;  // token of each marker
};

struct answer_refusal {
  int function = -1;   // index of the one whose parameters are at fault; -1: the answer's schema
  std::string detail;  // "'#/properties/a': the keyword 'not' is not supported"
};

// Null: the answer is its text alone. REQUIRES: `markup` where functions may be called.
std::expected<answer_grammar, answer_refusal> compile_answer(const answer_spec& spec,
                                                             const text::answer_markup* markup);

}  // namespace weir::engine::structure
