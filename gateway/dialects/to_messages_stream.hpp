// Chat completion chunks as the events of a messages API's answer, in the order that its SDKs accept:
// message_start, then block by block content_block_start, deltas and content_block_stop, then message_delta
// with the stop reason and the usage, message_stop.
//
// Blocks go one behind the other, so a chunk that goes on with a tool call while another one is open waits:
// a block that others wait for closes once it can be whole, a tool call when its arguments are one object. A
// state machine without I/O: waiting -> started at the first event -> ended by [DONE], an error or a chunk
// that cannot be read, behind which nothing is read. Each call appends whole events. Threads: one owner.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/dialects/error_shapes.hpp"
#include "gateway/dialects/source_json.hpp"
#include "gateway/dialects/to_messages_reply.hpp"
#include "gateway/dialects/usage.hpp"

namespace weir::gateway::dialects {

class messages_stream final {
 public:
  struct options {
    messages_identity identity;
    std::string request_id;         // for an error event
    std::int64_t input_tokens = 0;  // as far as known before the answer; the end tells the target's own count
  };

  explicit messages_stream(options wanted) : options_(std::move(wanted)) {}

  // One whole event as relay/event_splitter finds it, of a size that the caller bounds.
  void push(std::string_view event, std::string& out);

  // The chunks end here: where there was a finish_reason the message is completed, else it ends in an error.
  void end(std::string& out);

  // Ends the message in an error event.
  void fail(const error& e, std::string& out);

  bool ended() const noexcept { return ended_; }
  api::token_usage usage() const noexcept { return usage_.counts(); }

 private:
  enum class block_kind { thinking, text, tool };
  struct block {
    block_kind kind = block_kind::text;
    std::size_t call = 0;  // a tool's place among `calls_`
    std::string name;      // of a tool
    std::string waiting;   // not sent yet
    // How far a tool's arguments are: brackets open, within a string, behind a backslash, one whole object.
    std::size_t depth = 0;
    bool in_string = false;
    bool escaped = false;
    bool whole = false;

    void follow(std::string_view arguments);
  };
  struct call_name {
    std::int64_t index = 0;  // as the chunks name it
    std::string id;
  };

  void read(simdjson::dom::object root, const std::string& data, std::string& out);
  void read_choice(simdjson::dom::object choice, std::string& out);
  void read_delta(simdjson::dom::object delta, std::string& out);
  void read_call(simdjson::dom::object call, std::string& out);
  std::size_t place_of(std::optional<std::int64_t> index, std::string_view id);
  void add_call(std::size_t place, std::string_view name, std::string_view arguments, std::string& out);
  void add_text(block_kind kind, std::string_view text, std::string& out);
  void add(block& to, std::string_view text, std::string& out);

  void start_once(std::string& out);
  void advance(bool to_end, std::string& out);
  void open_front(std::string& out);
  void write_delta(std::string_view text, std::string& out);
  void close_front(std::string& out);
  void complete(std::string& out);
  void break_off(std::string_view what, std::string& out);

  options options_;
  usage_parts usage_;
  std::deque<block> blocks_;  // not closed yet; the front one has started where `open_`
  std::vector<call_name> calls_;
  std::size_t tools_begun_ = 0;  // of `calls_`: have or had a block
  std::size_t waiting_bytes_ = 0;
  std::int64_t index_ = 0;  // of the front block in the message
  bool open_ = false;
  bool started_ = false;
  bool ended_ = false;
  bool refused_ = false;
  std::optional<std::string> finish_reason_;
  std::optional<std::string> stop_sequence_;
};

}  // namespace weir::gateway::dialects
