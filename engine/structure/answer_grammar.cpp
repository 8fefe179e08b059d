#include "engine/structure/answer_grammar.hpp"

#include <algorithm>
#include <cassert>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "engine/structure/schema_compiler.hpp"

namespace weir::engine::structure {

namespace {

constexpr std::string_view k_any_object = R"({"type":"object"})";
constexpr std::uint32_t k_index_digits_max = 4;

class answer_writer final {
 public:
  using outcome = std::expected<answer_grammar, answer_refusal>;

  answer_writer(const answer_spec& spec, const text::answer_markup& markup) : spec_(spec), markup_(markup) {}

  outcome run() {
    const rule_id root = out_.add_rule();
    const state_id from = add_thought(out_.start(root)), to = out_.end(root);
    if (spec_.text == text_form::free) {
      out_.read(from, 0, 255, from);
      write(from, markup_.text_end, to);
    } else if (spec_.text != text_form::none) {
      const bool own = spec_.text == text_form::json_schema;
      const auto json = schema(own ? std::string_view(spec_.schema_json) : k_any_object, k_any_type);
      if (!json) return std::unexpected(answer_refusal{-1, json.error().detail});
      const state_id said = out_.add_state();
      out_.call(from, *json, said);
      write(said, markup_.text_end, to);
    }
    if (spec_.calls != call_rule::forbidden) {
      if (auto refused = add_calls(from, to)) return std::unexpected(std::move(*refused));
    }
    auto rules = out_.finish(root);
    if (!rules) return std::unexpected(answer_refusal{blamed(), "'#': " + rules.error().detail});
    return answer_grammar{std::move(*rules), std::move(markers_)};
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

  // Where the text begins.
  state_id add_thought(state_id from) {
    if (!markup_.thought_end) return from;
    const state_id text = out_.add_state();
    out_.read(from, 0, 255, from);
    write(from, *markup_.thought_end, text);
    return text;
  }

  // A function's parts on either side of a call's index.
  struct function_rules {
    rule_id head;  // NAME name_end
    rule_id rest;  // arguments_begin ARGUMENTS call_end
  };

  std::optional<answer_refusal> add_functions() {
    for (std::size_t i = 0; i < spec_.functions.size(); ++i) {
      const auto json = arguments(spec_.functions[i]);
      if (!json) return answer_refusal{static_cast<int>(i), json.error().detail};
      const function_rules f{out_.add_rule(), out_.add_rule()};
      const state_id named = out_.add_state(), begun = out_.add_state(), ended = out_.add_state();
      out_.text(out_.start(f.head), spec_.functions[i].name, named);
      write(named, markup_.name_end, out_.end(f.head));
      write(out_.start(f.rest), markup_.arguments_begin, begun);
      out_.call(begun, *json, ended);
      write(ended, markup_.call_end, out_.end(f.rest));
      functions_.push_back(f);
    }
    return std::nullopt;
  }

  std::optional<answer_refusal> add_calls(state_id from, state_id to) {
    if (auto refused = add_functions()) return refused;
    const std::uint32_t most = spec_.parallel_calls ? k_calls_max : 1;
    const state_id first = out_.add_state(), last = out_.add_state();
    write(from, markup_.calls_begin, first);
    if (markup_.first_index) {
      state_id at = first;
      for (std::uint32_t i = 0; i < most; ++i) {
        const state_id next = out_.add_state();
        const std::string index = std::to_string(*markup_.first_index + i);
        add_call(
            at, [&](state_id named, state_id numbered) { out_.text(named, index, numbered); }, next);
        out_.skip(next, last);
        at = next;
      }
    } else {
      const rule_id call = out_.add_rule(), digit = out_.add_rule();
      out_.read(out_.start(digit), '0', '9', out_.end(digit));
      add_call(
          out_.start(call),
          [&](state_id named, state_id numbered) {
            out_.call(named, digit, numbered, 1, k_index_digits_max);
          },
          out_.end(call));
      out_.call(first, call, last, 1, most);
    }
    write(last, markup_.calls_end, to);
    return std::nullopt;
  }

  // One call of any function; `add_index(from, to)` adds its index.
  template <class F>
  void add_call(state_id from, F add_index, state_id to) {
    const state_id opened = out_.add_state();
    write(from, markup_.call_begin, opened);
    for (const function_rules& f : functions_) {
      const state_id named = out_.add_state(), numbered = out_.add_state();
      out_.call(opened, f.head, named);
      add_index(named, numbered);
      out_.call(numbered, f.rest, to);
    }
  }

  void write(state_id from, const text::markup_pieces& pieces, state_id to) {
    if (pieces.empty()) out_.skip(from, to);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const state_id next = i + 1 == pieces.size() ? to : out_.add_state();
      if (pieces[i].special < 0) {
        out_.text(from, pieces[i].text, next);
      } else {
        out_.read(from, marker(pieces[i].special), next);
      }
      from = next;
    }
  }

  symbol marker(std::int32_t token) {
    auto at = std::find(markers_.begin(), markers_.end(), token);
    if (at == markers_.end()) at = markers_.insert(at, token);
    return static_cast<symbol>(k_first_marker + (at - markers_.begin()));
  }

  int blamed() const { return spec_.calls == call_rule::required ? 0 : -1; }

  const answer_spec& spec_;
  const text::answer_markup& markup_;
  grammar_builder out_;
  json_rules shared_{out_};
  std::deque<json_tree> trees_;
  std::vector<function_rules> functions_;
  std::vector<std::int32_t> markers_;
};

}  // namespace

std::expected<answer_grammar, answer_refusal> compile_answer(const answer_spec& spec,
                                                             const text::answer_markup* markup) {
  assert(markup != nullptr || spec.calls == call_rule::forbidden);
  const text::answer_markup none;
  const text::answer_markup& written = markup != nullptr ? *markup : none;
  auto made = answer_writer(spec, written).run();
  const auto is_loose = [](const function_spec& f) { return !f.strict && !f.parameters_json.empty(); };
  if (made || std::none_of(spec.functions.begin(), spec.functions.end(), is_loose)) return made;
  // It may have been too much together: then only what is promised is kept.
  answer_spec promised = spec;
  for (auto& f : promised.functions) {
    if (is_loose(f)) f.parameters_json.clear();
  }
  return answer_writer(promised, written).run();
}

}  // namespace weir::engine::structure
