// Edits of a request body: what the gateway accepts is still accepted, says what was asked, and is otherwise
// the input, byte for byte. Of the input, the first byte chooses the edit and the first line is the model.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "gateway/api/body_edit.hpp"
#include "gateway/api/generation_call.hpp"
#include "gateway/api/json.hpp"
#include "gateway/api/logprobs_json.hpp"

using namespace weir::gateway;

namespace {

// Whether `out` is `in` with one piece replaced by a piece of one of `texts`. Where `in` repeats what was put
// in, the piece found is rotated, so it is looked for in the text twice.
bool replaced_once(std::string_view in, std::string_view out, std::initializer_list<std::string> texts) {
  const auto front = std::mismatch(in.begin(), in.end(), out.begin(), out.end());
  const auto prefix = static_cast<std::size_t>(front.first - in.begin());
  in.remove_prefix(prefix);
  out.remove_prefix(prefix);
  while (!in.empty() && !out.empty() && in.back() == out.back()) {
    in.remove_suffix(1);
    out.remove_suffix(1);
  }
  return std::any_of(texts.begin(), texts.end(),
                     [&](const std::string& text) { return (text + text).find(out) != std::string::npos; });
}

// The members that no edit touches, as JSON without spaces.
std::string untouched(std::string body) {
  api::tame_numbers(body);
  simdjson::dom::parser parser;
  const auto root = api::parse_object(parser, body);
  if (!root) std::abort();
  std::string out;
  for (const auto field : *root) {
    if (field.key == "model" || field.key == "stream_options") continue;
    out.append(field.key).append(":").append(simdjson::minify(field.value)).append(",");
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const bool ask_usage = (data[0] & 1) != 0;
  const std::string_view rest(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::size_t line = std::min(rest.find('\n'), rest.size());
  const std::string model = api::valid_utf8(rest.substr(0, line));
  const std::string body(rest.substr(std::min(line + 1, rest.size())));
  const auto before = api::read_generation_call(api::generation_kind::chat, body);
  if (!before) return 0;

  const std::string named = api::edit_body(body, model, false).value_or(body);
  std::string quoted;
  api::append_quoted(quoted, model);
  if (!replaced_once(body, named, {quoted})) std::abort();
  const std::string out = ask_usage ? api::edit_body(named, "", true).value_or(named) : named;
  if (!replaced_once(named, out,
                     {R"("stream_options":{"include_usage":true},)", R"("include_usage":true,)"})) {
    std::abort();
  }
  if (api::edit_body(body, model, ask_usage).value_or(body) != out) std::abort();
  if (api::edit_body(out, model, ask_usage)) std::abort();

  const auto after = api::read_generation_call(api::generation_kind::chat, out);
  if (!after || after->model != (model.empty() ? before->model : model)) std::abort();
  if (after->include_usage != (ask_usage || before->include_usage)) std::abort();
  if (untouched(body) != untouched(out)) std::abort();
  return 0;
}
