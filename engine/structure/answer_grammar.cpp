#include "engine/structure/answer_grammar.hpp"

#include <algorithm>
#include <cassert>
#include <deque>
#include <optional>
#include <utility>

#include "engine/structure/schema_compiler.hpp"

namespace weir::engine::structure {

namespace {

constexpr std::string_view k_any_object = R"({"type":"object"})";
constexpr std::uint32_t k_index_digits_max = 4;

enum marker : symbol {
  m_section_begin = k_first_marker,
  m_section_end,
  m_call_begin,
  m_argument_begin,
  m_call_end,
};

class answer_writer final {
 public:
  using outcome = std::expected<answer_grammar, answer_refusal>;

  explicit answer_writer(const answer_spec& spec) : spec_(spec) {}

  outcome run(const text::call_markup* markup) {
    const rule_id root = out_.add_rule();
    const state_id from = out_.start(root), to = out_.end(root);
    if (spec_.text == text_form::free) {
      out_.read(from, 0, 255, from);
      out_.skip(from, to);
    } else if (spec_.text != text_form::none) {
      const bool own = spec_.text == text_form::json_schema;
      const auto json = schema(own ? std::string_view(spec_.schema_json) : k_any_object, k_any_type);
      if (!json) return std::unexpected(answer_refusal{-1, json.error().detail});
      out_.call(from, *json, to);
    }
    if (spec_.calls != call_rule::forbidden) {
      if (auto refused = add_calls(from, to)) return std::unexpected(std::move(*refused));
    }
    auto rules = out_.finish(root);
    if (!rules) return std::unexpected(answer_refusal{blamed(), "'#': " + rules.error().detail});
    answer_grammar out{std::move(*rules), {}};
    if (spec_.calls != call_rule::forbidden) {
      assert(markup != nullptr);
      out.markers = {markup->section_begin, markup->section_end, markup->call_begin, markup->argument_begin,
                     markup->call_end};
    }
    return out;
  }

 private:
  result<rule_id> schema(std::string_view json, std::uint8_t types) {
    auto tree = json_tree::parse(json);
    if (!tree) return fail(errc::bad_request, "the schema " + tree.error().detail);
    const json_tree& kept = trees_.emplace_back(std::move(*tree));
    return schema_compiler(kept, out_, shared_).compile(types);
  }

  result<rule_id> arguments(const function_spec& f) {
    if (f.parameters_json.empty()) return schema(k_any_object, k_object);
    auto own = schema(f.parameters_json, k_object);
    return own || f.strict || !out_.ok() ? own : schema(k_any_object, k_object);
  }

  std::optional<answer_refusal> add_calls(state_id from, state_id to) {
    const rule_id call = out_.add_rule();
    const rule_id digit = out_.add_rule();
    out_.read(out_.start(digit), '0', '9', out_.end(digit));
    const state_id calls = out_.add_state(), last = out_.add_state();
    out_.read(from, m_section_begin, calls);
    out_.call(calls, call, last, 1, spec_.parallel_calls ? k_calls_max : 1);
    out_.read(last, m_section_end, to);
    const state_id header = out_.add_state(), name = out_.add_state();
    out_.read(out_.start(call), m_call_begin, header);
    out_.text(header, "functions.", name);
    for (std::size_t i = 0; i < spec_.functions.size(); ++i) {
      const auto json = arguments(spec_.functions[i]);
      if (!json) return answer_refusal{static_cast<int>(i), json.error().detail};
      const state_id index = out_.add_state(), opened = out_.add_state();
      const state_id begun = out_.add_state(), ended = out_.add_state();
      out_.text(name, spec_.functions[i].name + ":", index);
      out_.call(index, digit, opened, 1, k_index_digits_max);
      out_.read(opened, m_argument_begin, begun);
      out_.call(begun, *json, ended);
      out_.read(ended, m_call_end, out_.end(call));
    }
    return std::nullopt;
  }

  int blamed() const { return spec_.calls == call_rule::required ? 0 : -1; }

  const answer_spec& spec_;
  grammar_builder out_;
  json_rules shared_{out_};
  std::deque<json_tree> trees_;
};

}  // namespace

std::expected<answer_grammar, answer_refusal> compile_answer(const answer_spec& spec,
                                                             const text::call_markup* markup) {
  auto made = answer_writer(spec).run(markup);
  const auto is_loose = [](const function_spec& f) { return !f.strict && !f.parameters_json.empty(); };
  if (made || std::none_of(spec.functions.begin(), spec.functions.end(), is_loose)) return made;
  // It may have been too much together: then only what is promised is kept.
  answer_spec promised = spec;
  for (auto& f : promised.functions) {
    if (is_loose(f)) f.parameters_json.clear();
  }
  return answer_writer(promised).run(markup);
}

}  // namespace weir::engine::structure
