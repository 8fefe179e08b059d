// What targets of Moonshot's and vLLM's kind answer otherwise than clients of the chat API expect, put right
// by edits of the text: usage.cached_tokens goes where it is standard, reasoning has both of its names
// (`reasoning`, `reasoning_content`), and the usage that a stream carries within its choice comes as the
// usage event. Every other byte stays.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weir::gateway::dialects {

// A whole reply; nothing where no byte has to change or it is not one JSON object. Pure; any thread.
std::optional<std::string> fix_chat_reply(const std::string& body);

// The events of a stream. A usage found within a choice is kept until the stream ends, and goes before [DONE]
// unless a usage event came by itself. Threads: one owner.
class fixed_stream final {
 public:
  // Appends one whole event, as relay/event_splitter finds it, and what must go before it.
  void push(std::string_view event, std::string& out);

  // The stream ended, perhaps without [DONE].
  void end(std::string& out);

 private:
  void keep_usage(std::string_view chunk, std::string_view usage);

  std::string usage_event_;  // not sent yet
};

}  // namespace weir::gateway::dialects
