#include "engine/text/chat_format.hpp"

#include <string_view>
#include <utility>

#include "engine/text/k3_renderer.hpp"
#include "engine/text/kimi_markup.hpp"
#include "engine/text/python_json.hpp"

namespace weir::engine::text {
namespace {

class kimi_format final : public chat_format {
 public:
  kimi_format(std::shared_ptr<const tokenizer> tok, const kimi_markup& markup,
              std::vector<std::int32_t> stops)
      : tok_(std::move(tok)), markup_(markup), stop_tokens_(std::move(stops)) {}

  result<prompt_segments> segments(const chat_prompt& prompt) const override {
    prompt_segments out;
    if (auto ok = declare_tools(prompt.tools_json, out); !ok) return std::unexpected(ok.error());
    for (std::size_t i = 0; i < prompt.messages.size(); ++i) {
      if (auto ok = message(prompt.messages[i], out); !ok) {
        return fail(errc::bad_request, "messages[" + std::to_string(i) + "]: " + ok.error().detail);
      }
    }
    open(markup_.im_assistant, "assistant", out);
    return out;
  }

  result<std::vector<std::int32_t>> render(const chat_prompt& prompt) const override {
    const auto parts = segments(prompt);
    if (!parts) return std::unexpected(parts.error());
    return encode_segments(*tok_, *parts);
  }

  const std::vector<std::int32_t>& stop_tokens() const noexcept override { return stop_tokens_; }
  std::unique_ptr<chat_parser> make_parser(bool) const override { return make_kimi_parser(tok_, markup_); }
  answer_markup answers(bool) const override {
    answer_markup out;
    out.calls_begin = {{markup_.section_begin, {}}};
    out.call_begin = {{markup_.call_begin, {}}, {-1, "functions."}};
    out.name_end = {{-1, ":"}};
    out.arguments_begin = {{markup_.argument_begin, {}}};
    out.call_end = {{markup_.call_end, {}}};
    out.calls_end = {{markup_.section_end, {}}};
    return out;
  }

 private:
  void open(std::int32_t opener, std::string_view name, prompt_segments& out) const {
    out.special(opener);
    out.view(name);
    out.special(markup_.im_middle);
  }

  void turn(std::int32_t opener, std::string_view name, std::string_view text, prompt_segments& out) const {
    open(opener, name, out);
    out.view(text);
    out.special(markup_.im_end);
  }

  result<void> declare_tools(std::string_view tools_json, prompt_segments& out) const {
    if (tools_json.empty()) return {};
    const auto tools = to_python_json(tools_json);
    if (!tools) return fail(errc::bad_request, "tools: " + tools.error().detail);
    if (!tools->is_array) return fail(errc::bad_request, "tools: must be an array");
    if (!tools->is_empty) {
      open(markup_.im_system, "tool_declare", out);
      out.own(tools->text);
      out.special(markup_.im_end);
    }
    return {};
  }

  result<void> message(const chat_message& m, prompt_segments& out) const {
    if (!m.tool_calls.empty() && m.role != "assistant") {
      return fail(errc::bad_request, "only an assistant message can have tool_calls");
    }
    if (m.role == "assistant") return assistant(m, out);
    if (m.role == "user") {
      turn(markup_.im_user, "user", m.content, out);
    } else if (m.role == "system" || m.role == "developer") {
      turn(markup_.im_system, "system", m.content, out);
    } else if (m.role == "tool") {
      if (m.tool_call_id.empty()) return fail(errc::bad_request, "a tool message needs tool_call_id");
      open(markup_.im_system, "tool", out);
      out.own("## Return of " + m.tool_call_id + "\n" + m.content);
      out.special(markup_.im_end);
    } else {
      return fail(errc::bad_request, "role must be system, developer, user, assistant or tool");
    }
    return {};
  }

  result<void> assistant(const chat_message& m, prompt_segments& out) const {
    open(markup_.im_assistant, "assistant", out);
    out.view(m.content);
    if (!m.tool_calls.empty()) {
      out.special(markup_.section_begin);
      for (const auto& call : m.tool_calls) {
        if (call.id.empty()) return fail(errc::bad_request, "a tool call needs an id");
        out.special(markup_.call_begin);
        out.view(call.id);
        out.special(markup_.argument_begin);
        out.view(call.arguments);
        out.special(markup_.call_end);
      }
      out.special(markup_.section_end);
    }
    out.special(markup_.im_end);
    return {};
  }

  std::shared_ptr<const tokenizer> tok_;
  kimi_markup markup_;
  std::vector<std::int32_t> stop_tokens_;
};

}  // namespace

std::vector<std::int32_t> encode_segments(const tokenizer& tok, const prompt_segments& segments) {
  std::vector<std::int32_t> ids;
  for (const auto& segment : segments.list) {
    if (segment.special >= 0) {
      ids.push_back(segment.special);
    } else {
      tok.encode(segment.text, ids);
    }
  }
  return ids;
}

result<std::shared_ptr<const prompt_renderer>> prompt_renderer::detect(std::shared_ptr<const tokenizer> tok) {
  return chat_format::detect(std::move(tok));
}

result<std::shared_ptr<const chat_format>> chat_format::detect(std::shared_ptr<const tokenizer> tok) {
  if (auto k3 = detect_k3_format(tok)) return k3;
  kimi_markup m{};
  const std::pair<std::string_view, std::int32_t*> needed[] = {
      {"<|im_system|>", &m.im_system},
      {"<|im_user|>", &m.im_user},
      {"<|im_assistant|>", &m.im_assistant},
      {"<|im_middle|>", &m.im_middle},
      {"<|im_end|>", &m.im_end},
      {"<|tool_calls_section_begin|>", &m.section_begin},
      {"<|tool_calls_section_end|>", &m.section_end},
      {"<|tool_call_begin|>", &m.call_begin},
      {"<|tool_call_argument_begin|>", &m.argument_begin},
      {"<|tool_call_end|>", &m.call_end}};
  for (const auto& [content, place] : needed) {
    const auto id = tok->special_id(content);
    if (!id) {
      return fail(errc::unsupported,
                  "no chat format fits the tokenizer: the Kimi-Linear one needs the special token " +
                      std::string(content));
    }
    *place = *id;
  }
  std::vector<std::int32_t> stops{m.im_end};
  for (const std::string_view content : {"[EOS]", "[EOT]"}) {
    if (const auto id = tok->special_id(content)) stops.push_back(*id);
  }
  return std::make_shared<const kimi_format>(std::move(tok), m, std::move(stops));
}

}  // namespace weir::engine::text
