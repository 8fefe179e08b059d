#include "gateway/api/body_edit.hpp"

#include "gateway/api/json.hpp"
#include "gateway/api/json_text.hpp"

namespace weir::gateway::api {

namespace {

void ask_for_usage(std::string_view body, text_edits& edits) {
  const auto options = find_member(body, 0, "stream_options");
  if (!options) return edits.insert_first(body, 0, R"("stream_options":{"include_usage":true})");
  if (options->value.in(body) == "null") return edits.replace(options->value, R"({"include_usage":true})");
  const auto wish = find_member(body, options->value.begin, "include_usage");
  if (!wish) return edits.insert_first(body, options->value.begin, R"("include_usage":true)");
  if (wish->value.in(body) != "true") edits.replace(wish->value, "true");
}

}  // namespace

std::optional<std::string> edit_body(std::string_view body, std::string_view model, bool ask_usage,
                                     std::span<const body_member> members) {
  text_edits edits;
  if (const auto found = model.empty() ? std::nullopt : find_member(body, 0, "model")) {
    std::string quoted;
    append_quoted(quoted, model);
    if (found->value.in(body) != quoted) edits.replace(found->value, std::move(quoted));
  }
  if (ask_usage) ask_for_usage(body, edits);
  for (const auto& m : members) {
    if (const auto found = find_member(body, 0, m.key)) {
      edits.replace(found->value, m.json);
    } else {
      edits.insert_first(body, 0, '"' + m.key + "\":" + m.json);
    }
  }
  if (edits.empty()) return std::nullopt;
  return edits.apply(body);
}

}  // namespace weir::gateway::api
