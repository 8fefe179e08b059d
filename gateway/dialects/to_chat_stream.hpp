// The events of a messages API's answer as chat completion chunks, one by one: the role first, then content,
// reasoning and tool call deltas as they come, the finish_reason, usage where it is wanted, [DONE].
//
// A state machine without I/O: waiting -> started at the first event -> ended by message_stop, an error event
// or an event that cannot be read, behind which nothing is read. A connection that ends before leaves the
// chunks without a finish_reason, as a chat target's that broke. Each call appends whole events. What the
// target sends is copied once and not kept, but for the start of tool calls. Threads: one owner.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/dialects/error_shapes.hpp"
#include "gateway/dialects/source_json.hpp"
#include "gateway/dialects/usage.hpp"

namespace weir::gateway::dialects {

class chat_stream final {
 public:
  struct options {
    api::answer_identity identity;  // an empty id: the message's own
    bool include_usage = false;     // the client asked for it
  };

  explicit chat_stream(options wanted) : options_(std::move(wanted)) {}

  // One whole event as relay/event_splitter finds it, of a size that the caller bounds.
  void push(std::string_view event, std::string& out);

  bool ended() const noexcept { return ended_; }
  // The target's own error, or what was wrong with its events.
  const std::optional<target_error>& failure() const noexcept { return failure_; }
  api::token_usage usage() const noexcept { return usage_.counts(); }

 private:
  struct tool_block {
    std::int64_t block = 0;  // its index among the message's blocks
    std::string input;       // as its start told it
    bool has_arguments = false;
    bool open = true;
  };

  void read(const source_json& data, std::string& out);
  void start(simdjson::dom::object root, std::string& out);
  void start_once(std::string_view id, std::string& out);
  void start_block(const source_json& data, std::string& out);
  void start_tool(const source_json& data, simdjson::dom::object block, std::string& out);
  void read_delta(simdjson::dom::object root, std::string& out);
  void stop_block(simdjson::dom::object root, std::string& out);
  void complete_tool(std::size_t index, std::string& out);
  void read_message_delta(simdjson::dom::object root, std::string& out);
  void stop(std::string& out);
  void fail_with(target_error e, std::string& out);

  json_writer begin_chunk(std::string& out) const;  // within its delta
  void end_chunk(std::string& out, json_writer& w, std::string_view finish_reason) const;
  void write_text(std::string_view key, std::string_view key_too, std::string_view text, std::string& out);
  void write_arguments(std::size_t index, std::string_view text, std::string& out);

  options options_;
  std::string head_;  // of every chunk, up to its choices
  std::vector<tool_block> tools_;
  usage_parts usage_;
  std::optional<target_error> failure_;
  bool started_ = false;
  bool finished_ = false;  // the finish_reason went
  bool ended_ = false;
};

}  // namespace weir::gateway::dialects
