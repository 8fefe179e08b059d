#include "gateway/api/answer_form.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace weir::gateway::api {

namespace {

using engine::structure::call_rule;
using engine::structure::function_spec;
using engine::structure::text_form;
using simdjson::dom::element;
using simdjson::dom::object;

bool is_format_name(std::string_view name) {
  return !name.empty() && name.size() <= k_format_name_bytes_max &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                  c == '-';
         });
}

// A schema as text; nothing where there is none. False: it is no schema.
bool schema_text(const field_reader& in, std::string_view key, std::string& out) {
  const auto schema = in.find(key);
  if (!schema) return true;
  if (!schema->is_object() && !schema->is_bool()) return false;
  out = simdjson::minify(*schema);
  return true;
}

void read_format(field_reader& in, answer_form& out) {
  const auto format = in.object("response_format");
  std::string_view type;
  if (!format || format->at_key("type").get(type)) return;
  if (type == "json_object") out.spec.text = text_form::json_object;
  if (type != "json_schema") return;
  field_reader outer(*format, "response_format");
  const auto given = outer.object("json_schema");
  if (!given) outer.fail("json_schema", "is required for type 'json_schema'");
  in.adopt(outer);
  if (!in.ok()) return;
  field_reader inner(*given, "response_format.json_schema");
  inner.text("name", out.format_name);
  if (inner.ok() && !is_format_name(out.format_name)) {
    inner.fail("name", "is required: 1 to 64 letters, digits, '_' or '-'");
  }
  bool strict = false;
  inner.flag("strict", strict);
  out.spec.text = text_form::json_schema;
  out.spec.schema_json = "{}";
  if (!schema_text(inner, "schema", out.spec.schema_json))
    inner.fail("schema", "must be a JSON Schema object");
  in.adopt(inner);
}

void read_functions(field_reader& in, answer_form& out) {
  const auto tools = in.array("tools");
  if (!tools) return;
  for (const auto entry : *tools) {
    const auto index = static_cast<int>(out.tool_indices.size());
    object function;
    if (!in.ok() || entry.at_key("function").get(function)) return;
    field_reader inner(function, fmt::format("tools[{}].function", index));
    function_spec spec;
    inner.text("name", spec.name);
    inner.flag("strict", spec.strict);
    if (!schema_text(inner, "parameters", spec.parameters_json)) {
      inner.fail("parameters", "must be a JSON Schema object");
    }
    in.adopt(inner);
    out.spec.functions.push_back(std::move(spec));
    out.tool_indices.push_back(index);
  }
}

// Leaves the functions of these names alone. False: one is not declared.
bool keep_functions(const std::vector<std::string_view>& names, answer_form& out) {
  const auto is_wanted = [&](const function_spec& f) {
    return std::find(names.begin(), names.end(), f.name) != names.end();
  };
  for (const auto name : names) {
    if (std::none_of(out.spec.functions.begin(), out.spec.functions.end(),
                     [&](const function_spec& f) { return f.name == name; })) {
      return false;
    }
  }
  for (std::size_t i = out.spec.functions.size(); i-- > 0;) {
    if (is_wanted(out.spec.functions[i])) continue;
    out.spec.functions.erase(out.spec.functions.begin() + static_cast<std::ptrdiff_t>(i));
    out.tool_indices.erase(out.tool_indices.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return true;
}

std::string_view function_name(element entry) {
  std::string_view name;
  object function;
  if (entry.at_key("function").get(function) || function.at_key("name").get(name)) return {};
  return name;
}

// {"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[...]}}
void read_allowed_tools(field_reader& in, element choice, answer_form& out) {
  object given;
  std::string_view mode;
  simdjson::dom::array list;
  if (choice.at_key("allowed_tools").get(given) || given.at_key("mode").get(mode) ||
      given.at_key("tools").get(list) || (mode != "auto" && mode != "required")) {
    return in.fail("tool_choice", "of type 'allowed_tools' needs 'allowed_tools' with 'mode' and 'tools'");
  }
  std::vector<std::string_view> names;
  for (const auto entry : list) names.push_back(function_name(entry));
  if (names.empty() || !keep_functions(names, out)) {
    return in.fail("tool_choice", "must allow tools that 'tools' declares");
  }
  if (mode == "required") out.spec.calls = call_rule::required;
}

void read_choice(field_reader& in, answer_form& out) {
  const auto choice = in.find("tool_choice");
  if (!out.spec.functions.empty()) out.spec.calls = call_rule::allowed;
  if (!choice) return;
  std::string_view word;
  if (!choice->get(word)) {
    if (word == "none") out.spec.calls = call_rule::forbidden;
    if (word == "required") out.spec.calls = call_rule::required;
    return;
  }
  if (!choice->at_key("type").get(word) && word == "allowed_tools")
    return read_allowed_tools(in, *choice, out);
  const std::string_view name = function_name(*choice);
  if (word != "function" || name.empty()) {
    return in.fail("tool_choice", "must be none, auto, required or an object that names a function");
  }
  if (!keep_functions({name}, out)) {
    return in.fail("tool_choice", fmt::format("names '{}', which 'tools' does not declare", excerpt(name)));
  }
  out.spec.calls = call_rule::required;
}

bool binds(const answer_form& form, std::size_t declared) {
  const auto& spec = form.spec;
  if (spec.text != text_form::free || spec.calls == call_rule::required) return true;
  if (spec.calls == call_rule::forbidden) return false;
  const bool strict = std::any_of(spec.functions.begin(), spec.functions.end(),
                                  [](const function_spec& f) { return f.strict; });
  return strict || !spec.parallel_calls || spec.functions.size() < declared;
}

}  // namespace

std::string answer_form::key() const {
  std::string out = fmt::format("{} {} {}\n{}\n", static_cast<int>(spec.text), static_cast<int>(spec.calls),
                                spec.parallel_calls, spec.schema_json);
  for (const auto& f : spec.functions) out += fmt::format("{} {}\n{}\n", f.name, f.strict, f.parameters_json);
  return out;
}

std::optional<answer_form> read_answer_form(field_reader& in) {
  answer_form out;
  read_format(in, out);
  read_functions(in, out);
  const std::size_t declared = out.spec.functions.size();
  if (in.ok()) read_choice(in, out);
  in.flag("parallel_tool_calls", out.spec.parallel_calls);
  if (!in.ok() || !binds(out, declared)) return std::nullopt;
  if (out.spec.calls == call_rule::required) out.spec.text = text_form::none;
  if (out.spec.calls == call_rule::forbidden) out.spec.functions.clear();
  return out;
}

error to_error(const answer_form& form, const engine::structure::answer_refusal& refusal) {
  if (refusal.function < 0) {
    const std::string whose =
        form.format_name.empty() ? "the answer" : fmt::format("response_format '{}'", form.format_name);
    return {errc::bad_request, fmt::format("Invalid schema for {}: {}", whose, refusal.detail),
            "response_format"};
  }
  const auto at = static_cast<std::size_t>(refusal.function);
  return {errc::bad_request,
          fmt::format("Invalid schema for function '{}': {}", form.spec.functions[at].name, refusal.detail),
          fmt::format("tools[{}].function.parameters", form.tool_indices[at])};
}

}  // namespace weir::gateway::api
