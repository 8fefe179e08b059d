// Chat markup: messages and tool declarations to prompt ids, generated ids back to reasoning, content and
// tool calls.
// The contract is the checkpoint's own template or renderer (a test oracle only); user text never yields a
// special token. prompt_renderer and chat_format are immutable, any thread; chat_parser belongs to one
// sequence, one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/result.hpp"
#include "engine/text/answer_markup.hpp"
#include "engine/text/tokenizer.hpp"

namespace weir::engine::text {

struct tool_call {
  std::string id;  // functions.NAME:INDEX in this format
  std::string name;
  std::string arguments;  // JSON text
};

struct chat_message {
  std::string role;  // system, developer, user, assistant, tool
  std::string content;
  std::vector<tool_call> tool_calls;  // assistant only
  std::string tool_call_id;           // tool only
  // What Kimi-Linear's markup has no place for, and leaves out:
  std::string name;        // of the speaker, or of the tool whose result this is
  std::string reasoning;   // assistant only
  std::string tools_json;  // system only: tools that join the conversation here, instead of content
};

enum class tool_use { open, required, forbidden };
enum class reply_format { text, json_object, json_schema };

struct chat_prompt {
  std::vector<chat_message> messages;
  std::string tools_json;  // the request's `tools` array as JSON text in the client's key order, or empty
  // What Kimi-Linear's markup has no place for, and leaves out:
  bool thinking = true;
  std::string thinking_effort;  // low, high, max; empty: the model's default
  tool_use tools = tool_use::open;
  reply_format format = reply_format::text;
  std::string schema_json;  // of json_schema
};

// A piece of a rendered prompt: a special token, or text whose ids are those of this text alone with special
// tokens disabled.
struct prompt_segment {
  std::int32_t special = -1;  // -1: text
  std::string_view text;      // never empty where special is -1
};

// A rendered prompt before it is tokenized. Text points into the chat_prompt, which must outlive it, or into
// `owned`. Moves keep the views valid, copies would not.
struct prompt_segments {
  std::vector<prompt_segment> list;
  std::deque<std::string> owned;

  prompt_segments() = default;
  prompt_segments(prompt_segments&&) = default;
  prompt_segments& operator=(prompt_segments&&) = default;

  void special(std::int32_t id) { list.push_back({id, {}}); }
  void view(std::string_view text) {
    if (!text.empty()) list.push_back({-1, text});
  }
  void own(std::string text) { view(owned.emplace_back(std::move(text))); }
};

std::vector<std::int32_t> encode_segments(const tokenizer& tok, const prompt_segments& segments);

struct content_delta {
  std::string text;
};
struct reasoning_delta {
  std::string text;
};
struct tool_call_begin {
  int index;  // 0-based, counts up
  std::string id;
  std::string name;
};
struct tool_arguments_delta {
  int index;
  std::string text;
};
using chat_delta = std::variant<content_delta, tool_call_begin, tool_arguments_delta, reasoning_delta>;

// Turns generated tokens into deltas. Markup never comes out as content or reasoning, malformed or cut short
// as it may be: neither special tokens nor the text of a call's header or of a tag. What stands around it
// does.
class chat_parser {
 public:
  virtual ~chat_parser() = default;
  // What is not yet decided (a call header in progress) is held back.
  virtual std::vector<chat_delta> push(std::int32_t token) = 0;
  virtual std::vector<chat_delta> finish() = 0;
  virtual bool has_tool_calls() const noexcept = 0;
};

class prompt_renderer {
 public:
  virtual ~prompt_renderer() = default;

  // As chat_format::detect.
  static result<std::shared_ptr<const prompt_renderer>> detect(std::shared_ptr<const tokenizer> tok);

  // The prompt including the opener of the assistant's turn. errc::bad_request for a role or shape it cannot
  // express.
  virtual result<prompt_segments> segments(const chat_prompt& prompt) const = 0;
};

// A renderer whose answers can be parsed too: what the embedded engine needs.
class chat_format : public prompt_renderer {
 public:
  // Chooses Kimi-Linear's markup or Kimi-K3's by the tokenizer's special tokens; errc::unsupported when
  // neither fits.
  static result<std::shared_ptr<const chat_format>> detect(std::shared_ptr<const tokenizer> tok);

  // The ids of the segments.
  virtual result<std::vector<std::int32_t>> render(const chat_prompt& prompt) const = 0;

  virtual const std::vector<std::int32_t>& stop_tokens() const noexcept = 0;  // end of the assistant's turn
  // `thinking` as in the prompt that is answered.
  virtual std::unique_ptr<chat_parser> make_parser(bool thinking) const = 0;

  // What an answer is to be written in so that the parser understands all of it.
  virtual answer_markup answers(bool thinking) const = 0;
};

}  // namespace weir::engine::text
