// What a chat request binds its answer to: response_format, tool_choice, parallel_tool_calls and the schemas
// of its tools, as the embedded engine can keep it. Values; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/structure/answer_grammar.hpp"
#include "gateway/api/json.hpp"

namespace weir::gateway::api {

inline constexpr std::size_t k_format_name_bytes_max = 64;  // as OpenAI

struct answer_form {
  engine::structure::answer_spec spec;
  std::string format_name;        // of response_format.json_schema
  std::vector<int> tool_indices;  // of spec.functions, in the request's tools

  // The same for requests that bind their answers alike.
  std::string key() const;
};

// Nothing where any text will do. REQUIRES: `tools` were checked to be functions with names.
std::optional<answer_form> read_answer_form(field_reader& in);

// What is wrong with one of its schemas, in the words of the request.
error to_error(const answer_form& form, const engine::structure::answer_refusal& refusal);

}  // namespace weir::gateway::api
