#include "gateway/dialects/chat_fixes.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "gateway/dialects/source_json.hpp"

namespace weir::gateway::dialects {

namespace {

using simdjson::dom::array;
using simdjson::dom::object;

constexpr std::string_view k_sampling[] = {"temperature", "top_p", "n", "presence_penalty",
                                           "frequency_penalty"};

struct word_pair {
  std::string_view from;
  std::string_view to;
};
constexpr word_pair k_kimi_efforts[] = {
    {"none", "low"}, {"minimal", "low"}, {"medium", "high"}, {"xhigh", "max"}};

class request_fixer {
 public:
  request_fixer(const source_json& source, const chat_fixes& fixes)
      : source_(source),
        body_(source.text()),
        fixes_(fixes),
        members_(api::members_of(body_, 0)),
        dropped_(members_.size(), false) {}

  std::optional<std::string> run();

 private:
  std::optional<std::size_t> find(std::string_view key) const {
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (api::is_key(members_[i].key.in(body_), key)) return i;
    }
    return std::nullopt;
  }
  void drop(std::string_view key) {
    if (const auto at = find(key)) dropped_[*at] = true;
  }
  void fix_effort();
  void fix_max_tokens();
  void fix_messages();
  void fix_reasoning(object message, std::size_t at, std::string_view from, std::string_view to);

  const source_json& source_;
  std::string_view body_;
  const chat_fixes& fixes_;
  std::vector<api::text_member> members_;
  std::vector<bool> dropped_;
  api::text_edits edits_;
};

void request_fixer::fix_effort() {
  const auto word = string_in(source_.root(), "reasoning_effort");
  for (const auto& pair : k_kimi_efforts) {
    if (word != pair.from) continue;
    edits_.replace(members_[*find("reasoning_effort")].value, '"' + std::string(pair.to) + '"');
  }
}

void request_fixer::fix_max_tokens() {
  const auto old = find("max_tokens");
  if (!old) return;
  if (find("max_completion_tokens")) {
    dropped_[*old] = true;
  } else {
    edits_.replace(members_[*old].key, R"("max_completion_tokens")");
  }
}

// Renames the key; of two keys with something to say the wanted one stays.
void request_fixer::fix_reasoning(object message, std::size_t at, std::string_view from,
                                  std::string_view to) {
  const auto members = api::members_of(body_, at);
  std::vector<bool> marked(members.size(), false);
  const bool has_both = !string_in(message, to).value_or("").empty();
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::string_view key = members[i].key.in(body_);
    const bool is_from = api::is_key(key, from);
    if (is_from && !has_both) edits_.replace(members[i].key, '"' + std::string(to) + '"');
    marked[i] = has_both ? is_from : api::is_key(key, to);
  }
  edits_.remove(body_, at, members, marked);
}

void request_fixer::fix_messages() {
  const auto place = find("messages");
  array messages;
  if (!place || source_.root().at_key("messages").get(messages)) return;
  const bool to_content = fixes_.reasoning == reasoning_key::reasoning_content;
  const std::string_view from = to_content ? "reasoning" : "reasoning_content";
  const std::string_view to = to_content ? "reasoning_content" : "reasoning";
  const auto spans = api::elements_of(body_, members_[*place].value.begin);
  std::size_t index = 0;
  for (const auto entry : messages) {
    const std::size_t at = spans[index++].begin;
    object message;
    if (entry.get(message) || string_in(message, "role") != "assistant") continue;
    const auto text = string_in(message, from);
    if (text && !text->empty()) fix_reasoning(message, at, from, to);
  }
}

std::optional<std::string> request_fixer::run() {
  if (fixes_.drop_sampling)
    std::for_each(std::begin(k_sampling), std::end(k_sampling), [&](auto k) { drop(k); });
  if (fixes_.kimi_efforts) fix_effort();
  if (fixes_.completion_tokens) fix_max_tokens();
  if (fixes_.reasoning != reasoning_key::as_sent) fix_messages();
  edits_.remove(body_, 0, members_, dropped_);
  if (edits_.empty()) return std::nullopt;
  return edits_.apply(body_);
}

}  // namespace

result<std::optional<std::string>> fix_chat_request(const std::string& body, const chat_fixes& fixes) {
  const auto source = source_json::parse(body);
  if (!source) return std::unexpected(source.error());
  simdjson::dom::element answers;
  std::int64_t count = 0;
  if (fixes.drop_sampling && !source->root().at_key("n").get(answers) && !answers.is_null() &&
      (answers.get(count) || count != 1)) {
    return fail(errc::unsupported, "'n' must be 1 for this target", "n");
  }
  return request_fixer(*source, fixes).run();
}

}  // namespace weir::gateway::dialects
