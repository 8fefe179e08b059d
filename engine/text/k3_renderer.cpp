#include "engine/text/k3_renderer.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/text/k3_markup.hpp"
#include "engine/text/python_json.hpp"

namespace weir::engine::text {
namespace {

struct attribute {
  std::string_view key;  // with the space before it
  std::string_view value;
};

std::unexpected<error> refuse(std::string what) {
  return fail(errc::bad_request, std::move(what));
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\n\v\f\r\x1C\x1D\x1E\x1F") == std::string_view::npos;
}

result<std::string> sorted_json(std::string_view json) {
  auto sorted = to_python_json(json, {.sorted = true});
  if (!sorted) return std::unexpected(sorted.error());
  return std::move(sorted->text);
}

// Writes one prompt.
class writer {
 public:
  explicit writer(const k3_markup& markup) : m_(markup) {}

  prompt_segments take() { return std::move(out_); }

  void open(std::string_view tag, std::initializer_list<attribute> attributes = {}) {
    out_.special(m_.open);
    out_.view(tag);
    for (const auto& [key, value] : attributes) {
      if (value.data() == nullptr) continue;
      out_.view(key);
      out_.view("=\"");
      attribute_value(value);
      out_.view("\"");
    }
    out_.special(m_.sep);
  }
  void close(std::string_view tag) {
    out_.special(m_.close);
    out_.view(tag);
    out_.special(m_.sep);
  }
  void end_message() {
    close("message");
    out_.special(m_.end_of_msg);
  }
  void system(std::string_view type, std::string text) {
    open("message", {{" role", "system"}, {" type", type}});
    out_.own(std::move(text));
    end_message();
  }
  void text(std::string_view t) { out_.view(t); }
  void own(std::string t) { out_.own(std::move(t)); }

  // Copies a value that does not outlive the call.
  std::string_view keep(std::string value) { return out_.owned.emplace_back(std::move(value)); }

 private:
  void attribute_value(std::string_view value) {
    if (value.find_first_of("&\"") == std::string_view::npos) return out_.view(value);
    std::string escaped;
    for (const char c : value) {
      if (c == '&') {
        escaped += "&amp;";
      } else if (c == '"') {
        escaped += "&quot;";
      } else {
        escaped.push_back(c);
      }
    }
    out_.own(std::move(escaped));
  }

  k3_markup m_;
  prompt_segments out_;
};

// An attribute that is left out where there is no name.
std::string_view or_none(const std::string& name) {
  return name.empty() ? std::string_view{} : std::string_view(name);
}

class conversation {
 public:
  conversation(const chat_prompt& prompt, writer& out) : prompt_(prompt), out_(out) {}

  result<void> write() {
    const auto& messages = prompt_.messages;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      if (messages[i].role == "tool") {
        const std::size_t first = i;
        while (i + 1 < messages.size() && messages[i + 1].role == "tool") ++i;
        if (auto ok = results(first, i + 1); !ok) return ok;
        continue;
      }
      if (auto ok = message(messages[i]); !ok) return named(i, ok.error());
    }
    return {};
  }

 private:
  static std::unexpected<error> named(std::size_t i, const error& e) {
    return fail(e.code, "messages[" + std::to_string(i) + "]: " + e.detail);
  }

  result<void> message(const chat_message& m) {
    if (!m.tool_calls.empty() && m.role != "assistant") {
      return refuse("only an assistant message can have tool_calls");
    }
    if (m.role == "assistant") return assistant(m);
    if (m.role != "user" && m.role != "system") {
      return refuse("role must be system, user, assistant or tool");
    }
    if (m.role == "system" && !m.tools_json.empty()) return new_tools(m.tools_json, m);
    plain(m);
    return {};
  }

  void plain(const chat_message& m) {
    out_.open("message", {{" role", m.role}, {" name", or_none(m.name)}});
    out_.text(m.content);
    out_.end_message();
  }

  result<void> new_tools(std::string_view tools_json, const chat_message& m) {
    const auto json = sorted_json(tools_json);
    if (!json) return refuse("tools: " + json.error().detail);
    if (!json->starts_with('[')) return refuse("tools: must be an array");
    if (*json == "[]") {
      plain(m);
      return {};
    }
    out_.system("tool-declare",
                "## New Tools Available\nThe system dynamically extends the toolset via lazy-loading.\n"
                "You have access to all existing and extended tools.\n"
                "Here are the specs for the extended tools.\n\n```json\n" +
                    *json + "\n```");
    return {};
  }

  result<void> assistant(const chat_message& m) {
    calls_ = &m.tool_calls;
    results_ = 0;
    out_.open("message", {{" role", "assistant"}, {" name", or_none(m.name)}});
    if (prompt_.thinking) {
      out_.open("think");
      if (!is_blank(m.reasoning)) out_.text(m.reasoning);
      out_.close("think");
    }
    out_.open("response");
    out_.text(m.content);
    out_.close("response");
    if (!m.tool_calls.empty()) {
      out_.open("tools");
      for (std::size_t i = 0; i < m.tool_calls.size(); ++i) {
        if (auto ok = call(m.tool_calls[i], i + 1); !ok) return ok;
      }
      out_.close("tools");
    }
    out_.end_message();
    return {};
  }

  result<void> call(const tool_call& c, std::size_t index) {
    if (c.name.empty()) return refuse("a tool call needs a name");
    out_.open("call", {{" tool", c.name}, {" index", out_.keep(std::to_string(index))}});
    if (!is_blank(c.arguments)) {
      auto members = to_python_members(c.arguments);
      if (members) {
        for (auto& member : *members) {
          const std::string_view key = out_.keep(std::move(member.key));
          out_.open("argument", {{" key", key}, {" type", member.type}});
          out_.own(std::move(member.text));
          out_.close("argument");
        }
      } else {
        out_.open("json", {{" type", "object"}});
        out_.text(c.arguments);
        out_.close("json");
      }
    }
    out_.close("call");
    return {};
  }

  // The place of the call that a message answers.
  std::optional<std::size_t> answered(const chat_message& m) const {
    if (calls_ == nullptr || m.tool_call_id.empty()) return std::nullopt;
    const auto found = std::find_if(calls_->begin(), calls_->end(),
                                    [&m](const tool_call& c) { return c.id == m.tool_call_id; });
    if (found == calls_->end()) return std::nullopt;
    return static_cast<std::size_t>(found - calls_->begin());
  }

  // A run of tool messages, from `first` up to `last`.
  result<void> results(std::size_t first, std::size_t last) {
    struct answer {
      std::size_t call;
      std::size_t message;
    };
    std::vector<answer> run;
    bool all_answer = true;
    for (std::size_t i = first; i < last; ++i) {
      const auto call = answered(prompt_.messages[i]);
      all_answer = all_answer && call.has_value();
      run.push_back({call.value_or(0), i});
    }
    if (all_answer) {
      std::sort(run.begin(), run.end(), [](const answer& a, const answer& b) {
        return std::pair(a.call, a.message) < std::pair(b.call, b.message);
      });
    }
    for (const auto& [call, i] : run) {
      ++results_;
      const chat_message& m = prompt_.messages[i];
      std::string_view tool = m.name;
      if (all_answer) {
        tool = (*calls_)[call].name;
      } else if (tool.empty() && calls_ != nullptr && results_ <= calls_->size()) {
        tool = (*calls_)[results_ - 1].name;
      }
      if (tool.empty()) return named(i, {errc::bad_request, "a tool message must answer a tool call"});
      out_.open("message",
                {{" role", "tool"}, {" tool", tool}, {" index", out_.keep(std::to_string(results_))}});
      out_.text(m.content);
      out_.end_message();
    }
    return {};
  }

  const chat_prompt& prompt_;
  writer& out_;
  const std::vector<tool_call>* calls_ = nullptr;  // of the last assistant message
  std::size_t results_ = 0;                        // since then
};

class k3_format final : public chat_format {
 public:
  k3_format(std::shared_ptr<const tokenizer> tok, const k3_markup& markup, std::vector<std::int32_t> stops)
      : tok_(std::move(tok)), markup_(markup), stop_tokens_(std::move(stops)) {}

  result<std::vector<std::int32_t>> render(const chat_prompt& prompt) const override {
    const auto parts = segments(prompt);
    if (!parts) return std::unexpected(parts.error());
    return encode_segments(*tok_, *parts);
  }

  const std::vector<std::int32_t>& stop_tokens() const noexcept override { return stop_tokens_; }
  std::unique_ptr<chat_parser> make_parser(bool thinking) const override {
    return make_k3_parser(tok_, markup_, thinking);
  }
  answer_markup answers(bool thinking) const override { return k3_answers(markup_, thinking); }

  result<prompt_segments> segments(const chat_prompt& prompt) const override {
    writer out(markup_);
    if (auto ok = declare_tools(prompt, out); !ok) return std::unexpected(ok.error());
    if (auto ok = thinking_effort(prompt, out); !ok) return std::unexpected(ok.error());
    if (auto ok = conversation(prompt, out).write(); !ok) return std::unexpected(ok.error());
    tool_choice(prompt, out);
    if (auto ok = response_format(prompt, out); !ok) return std::unexpected(ok.error());
    out.open("message", {{" role", "assistant"}});
    out.open(prompt.thinking ? "think" : "response");
    return out.take();
  }

 private:
  static result<void> declare_tools(const chat_prompt& prompt, writer& out) {
    if (prompt.tools_json.empty()) return {};
    const auto json = sorted_json(prompt.tools_json);
    if (!json) return refuse("tools: " + json.error().detail);
    if (!json->starts_with('[')) return refuse("tools: must be an array");
    if (*json == "[]") return {};
    out.system(
        "tool-declare",
        "# Tools\nHere are the available tools, described in JSONSchema.\n\n```json\n" + *json + "\n```");
    return {};
  }

  static result<void> thinking_effort(const chat_prompt& prompt, writer& out) {
    if (!prompt.thinking) return {};
    const std::string effort = prompt.thinking_effort.empty() ? "max" : prompt.thinking_effort;
    if (effort != "low" && effort != "high" && effort != "max") {
      return refuse("thinking_effort must be low, high or max");
    }
    out.system("thinking-effort",
               "`thinking_effort` guides on how much to think in your thinking channel (not including the "
               "response channel), supported values include `low`, `medium`, `high`, and `max`.\n"
               "Now the system is invoked with `thinking_effort=" +
                   effort + "`.");
    return {};
  }

  static void tool_choice(const chat_prompt& prompt, writer& out) {
    if (prompt.tools == tool_use::required) {
      out.system("tool-choice",
                 "The system is invoked with `tool_choice=required`.\n"
                 "You MUST call tools in the next message.");
    } else if (prompt.tools == tool_use::forbidden) {
      out.system("tool-choice",
                 "The system is invoked with `tool_choice=none`.\n"
                 "You MUST NOT call any tools in the next message.");
    }
  }

  static result<void> response_format(const chat_prompt& prompt, writer& out) {
    if (prompt.format == reply_format::text) return {};
    const bool schema = prompt.format == reply_format::json_schema;
    std::string text = "The system is invoked with `response_format=";
    text += schema ? "json_schema`.\n" : "json_object`.\n";
    text +=
        "Your response must be raw JSON data without markdown code blocks (```json) or any additional "
        "formatting.";
    if (schema) {
      const auto json = prompt.schema_json.empty() ? "null" : sorted_json(prompt.schema_json);
      if (!json) return refuse("response_format: " + json.error().detail);
      text += "\nThe JSON data must match the following schema:\n```json\n" + *json + "\n```";
    }
    out.system("response-format", std::move(text));
    return {};
  }

  std::shared_ptr<const tokenizer> tok_;
  k3_markup markup_;
  std::vector<std::int32_t> stop_tokens_;
};

}  // namespace

std::shared_ptr<const chat_format> detect_k3_format(std::shared_ptr<const tokenizer> tok) {
  k3_markup m{};
  const std::pair<std::string_view, std::int32_t*> needed[] = {
      {"<|open|>", &m.open}, {"<|close|>", &m.close}, {"<|sep|>", &m.sep}, {"<|end_of_msg|>", &m.end_of_msg}};
  for (const auto& [content, place] : needed) {
    const auto id = tok->special_id(content);
    if (!id) return nullptr;
    *place = *id;
  }
  std::vector<std::int32_t> stops{m.end_of_msg};
  for (const std::string_view content : {"[EOS]", "[EOT]"}) {
    if (const auto id = tok->special_id(content)) stops.push_back(*id);
  }
  return std::make_shared<const k3_format>(std::move(tok), m, std::move(stops));
}

}  // namespace weir::engine::text
