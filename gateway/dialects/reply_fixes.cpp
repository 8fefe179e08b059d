#include "gateway/dialects/reply_fixes.hpp"

#include <algorithm>
#include <vector>

#include "gateway/dialects/event_fields.hpp"
#include "gateway/dialects/json_writer.hpp"
#include "gateway/dialects/source_json.hpp"

namespace weir::gateway::dialects {

namespace {

// A reply without these words needs no reading.
bool may_need_fixing(std::string_view text) {
  for (const std::string_view word : {"\"reasoning", "\"cached_tokens\"", "\"usage\""}) {
    if (text.find(word) != std::string_view::npos) return true;
  }
  return false;
}

bool is_null_or_absent(std::string_view text, const std::optional<api::text_member>& member) {
  return !member || member->value.in(text) == "null";
}

// A member that is an object.
std::optional<api::text_member> find_object(std::string_view text, std::size_t at, std::string_view key) {
  const auto found = api::find_member(text, at, key);
  if (!found || text[found->value.begin] != '{') return std::nullopt;
  return found;
}

void fix_usage(std::string_view text, std::size_t at, api::text_edits& edits) {
  const auto cached = api::find_member(text, at, "cached_tokens");
  if (is_null_or_absent(text, cached)) return;
  const auto details = api::find_member(text, at, "prompt_tokens_details");
  const std::string member = "\"cached_tokens\":" + std::string(cached->value.in(text));
  if (!details) {
    edits.insert_first(text, at, "\"prompt_tokens_details\":{" + member + '}');
  } else if (details->value.in(text) == "null") {
    edits.replace(details->value, '{' + member + '}');
  } else if (text[details->value.begin] == '{' &&
             !api::find_member(text, details->value.begin, "cached_tokens")) {
    edits.insert_first(text, details->value.begin, member);
  }
}

// Of a message or delta: what one of the two keys says, the other one says too.
void fix_reasoning(std::string_view text, std::size_t at, api::text_edits& edits) {
  static constexpr std::string_view k_keys[] = {"reasoning_content", "reasoning"};
  for (const bool to_content : {false, true}) {
    const auto from = api::find_member(text, at, k_keys[to_content ? 1 : 0]);
    if (!from || text[from->value.begin] != '"') continue;
    const std::string_view key = k_keys[to_content ? 0 : 1];
    const std::string value(from->value.in(text));
    const auto place = api::find_member(text, at, key);
    if (!place) edits.insert_first(text, at, '"' + std::string(key) + "\":" + value);
    if (place && place->value.in(text) == "null") edits.replace(place->value, value);
  }
}

std::vector<api::text_span> choices_of(std::string_view text) {
  const auto choices = api::find_member(text, 0, "choices");
  return choices ? api::elements_of(text, choices->value.begin) : std::vector<api::text_span>();
}

void fix_choices(std::string_view text, std::string_view part, api::text_edits& edits) {
  for (const auto& choice : choices_of(text)) {
    if (const auto inner = find_object(text, choice.begin, part)) {
      fix_reasoning(text, inner->value.begin, edits);
    }
  }
}

// A choice's usage out of it; the text of the last one found.
std::string_view take_choice_usage(std::string_view text, api::text_edits& edits) {
  std::string_view out;
  for (const auto& choice : choices_of(text)) {
    const auto members = api::members_of(text, choice.begin);
    std::vector<bool> marked(members.size(), false);
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (!api::is_key(members[i].key.in(text), "usage") || text[members[i].value.begin] != '{') continue;
      marked[i] = true;
      out = members[i].value.in(text);
    }
    edits.remove(text, choice.begin, members, marked);
  }
  return out;
}

// A usage object in the standard form.
std::string standard_usage(std::string_view usage) {
  api::text_edits edits;
  fix_usage(usage, 0, edits);
  return edits.apply(usage);
}

}  // namespace

std::optional<std::string> fix_chat_reply(const std::string& body) {
  if (!may_need_fixing(body) || !source_json::parse(body)) return std::nullopt;
  api::text_edits edits;
  if (const auto usage = find_object(body, 0, "usage")) {
    fix_usage(body, usage->value.begin, edits);
    fix_choices(body, "message", edits);
  } else {
    fix_choices(body, "message", edits);
    const std::string_view within = take_choice_usage(body, edits);
    const auto place = api::find_member(body, 0, "usage");
    if (!within.empty() && place) edits.replace(place->value, standard_usage(within));
    if (!within.empty() && !place) edits.insert_first(body, 0, "\"usage\":" + standard_usage(within));
  }
  if (edits.empty()) return std::nullopt;
  return edits.apply(body);
}

// The chunk's own members around no choice.
void fixed_stream::keep_usage(std::string_view chunk, std::string_view usage) {
  usage_event_ = "data: ";
  json_writer w(usage_event_);
  w.open('{');
  for (const std::string_view key : {"id", "object", "created", "model"}) {
    const std::string_view value = text_of(chunk, key);
    if (!value.empty()) w.key(key).raw(value);
  }
  w.key("choices").open('[').close(']').key("usage").raw(standard_usage(usage)).close('}');
  usage_event_ += "\n\n";
}

void fixed_stream::end(std::string& out) {
  out += usage_event_;
  usage_event_.clear();
}

void fixed_stream::push(std::string_view event, std::string& out) {
  const bool done = !usage_event_.empty() && event.find("[DONE]") != std::string_view::npos;
  if (!done && !may_need_fixing(event)) {
    out += event;
    return;
  }
  const auto fields = read_fields(event);
  const std::string_view data = fields.data;
  if (done && data.substr(0, data.find_last_not_of(' ') + 1) == "[DONE]") {
    end(out);
  }
  if (!source_json::parse(fields.data)) {
    out += event;
    return;
  }
  api::text_edits edits;
  fix_choices(data, "delta", edits);
  const std::string_view within = take_choice_usage(data, edits);
  if (const auto usage = find_object(data, 0, "usage")) {
    usage_event_.clear();
    fix_usage(data, usage->value.begin, edits);
  } else if (!within.empty()) {
    keep_usage(data, within);
  }
  if (edits.empty()) {
    out += event;
    return;
  }
  // Data of several lines is one again.
  std::string text = edits.apply(data);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  out += "data: " + text + "\n\n";
}

}  // namespace weir::gateway::dialects
