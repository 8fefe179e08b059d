// Kimi-Linear / Kimi-K2 chat markup: messages and tool declarations to prompt ids, generated ids back to
// content and tool calls. The contract is the checkpoint's chat_template.jinja (a test oracle only); user
// text never yields a special token. chat_format is immutable, any thread; chat_parser belongs to one
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
};

struct chat_prompt {
  std::vector<chat_message> messages;
  std::string tools_json;  // the request's `tools` array as JSON text in the client's key order, or empty
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
struct tool_call_begin {
  int index;  // 0-based, counts up
  std::string id;
  std::string name;
};
struct tool_arguments_delta {
  int index;
  std::string text;
};
using chat_delta = std::variant<content_delta, tool_call_begin, tool_arguments_delta>;

// Turns generated tokens into deltas. Malformed markup comes out as content, never lost and never an
// exception.
class chat_parser {
 public:
  virtual ~chat_parser() = default;
  // `raw` text of tokens consumed so far that is not yet decided (a call header in progress) is held back.
  virtual std::vector<chat_delta> push(std::int32_t token) = 0;
  virtual std::vector<chat_delta> finish() = 0;
  virtual bool has_tool_calls() const noexcept = 0;
};

class chat_format {
 public:
  virtual ~chat_format() = default;

  // Chooses the format by the tokenizer's special tokens; errc::unsupported when none fits.
  static result<std::shared_ptr<const chat_format>> detect(std::shared_ptr<const tokenizer> tok);

  // The prompt including the opener of the assistant's turn. errc::bad_request for a role or shape it cannot
  // express.
  virtual result<prompt_segments> segments(const chat_prompt& prompt) const = 0;

  // The ids of those segments.
  virtual result<std::vector<std::int32_t>> render(const chat_prompt& prompt) const = 0;

  virtual const std::vector<std::int32_t>& stop_tokens() const noexcept = 0;  // end of the assistant's turn
  virtual std::unique_ptr<chat_parser> make_parser() const = 0;
};

}  // namespace weir::engine::text
