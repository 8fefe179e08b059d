// What of an upstream's event stream may go to the client, and when: whole events only, bytes unchanged.
// Nothing goes before the first content, so that a failure up to then has its true status and may be tried
// elsewhere; our own usage event never goes; nothing goes behind a fault.
//
// A state machine without I/O: hold -> release <-> hold -> ... -> failed (final), by the bytes pushed and the
// end. Threads: the I/O thread of its inspector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/errc.hpp"
#include "gateway/relay/event_inspector.hpp"
#include "gateway/relay/event_splitter.hpp"

namespace weir::gateway::relay {

// Held before the first content. A target that sends more than this in front of it starts its stream by that.
inline constexpr std::size_t k_preamble_bytes_max = 64 << 10;

class event_stream final {
 public:
  struct options {
    bool drop_usage = false;  // the client did not ask for the usage event
    std::size_t event_bytes_max = std::size_t{1} << 20;
    event_shape shape = event_shape::chunks;
  };
  enum class state {
    hold,     // nothing may go yet
    release,  // released() is to be sent
    failed,   // the stream cannot go on: failure()
  };

  event_stream(options limits, event_inspector& inspector) : options_(limits), inspector_(inspector) {}

  // Adds bytes, cut anywhere. What precedes a fault is released first; the next call then fails.
  state push(std::string_view bytes);

  // The body ended in order, with these bytes. A last event without its blank line is completed with one;
  // half an event is dropped.
  state end(std::string_view last_bytes = {});

  std::string_view released() const noexcept;                  // REQUIRES: release; valid until the next call
  const error& failure() const noexcept { return *failure_; }  // REQUIRES: failed
  // The target's own error event, where one is the failure; null: it is not.
  const event_facts* error_event() const noexcept { return error_event_ ? &*error_event_ : nullptr; }

  bool started() const noexcept { return started_; }  // something was released
  // The last event was released, to its last byte: there is nothing more to wait for.
  bool complete() const noexcept { return done_ && (failed() || !splitter_.awaits_lf()); }
  bool failed() const noexcept { return failure_.has_value(); }
  // What the last push or end took was more than comments: the target is not merely alive.
  bool progressed() const noexcept { return progressed_; }
  bool error_sent() const noexcept { return error_sent_; }  // the target's own error event was released
  // The last report; where content came behind it, no less than what was shown.
  api::token_usage usage() const noexcept;
  // Of what was released, in events that show something; comments and the like are none.
  std::int64_t shown() const noexcept { return started_ ? shown_ : 0; }
  std::size_t held_bytes() const noexcept { return buffer_.capacity(); }

 private:
  void take_events();
  void drop_half_event();
  void take_late_lf();
  void take_usage(const event_facts& facts) noexcept;
  bool take_event(std::size_t bytes);  // false: nothing behind it counts
  void keep_event(std::size_t bytes);
  void cut_behind_held();
  bool finished() const noexcept;  // every choice seen has its finish_reason
  void take_error(const event_facts& facts, std::size_t bytes);
  void fail_with(std::string what);
  state now();

  options options_;
  event_inspector& inspector_;
  event_splitter splitter_;
  std::string buffer_;          // released, then held events, then the begin of an event
  std::size_t out_bytes_ = 0;   // of `buffer_`: released by the last call
  std::size_t gap_bytes_ = 0;   // of `buffer_`: dropped events behind what is held
  std::size_t held_bytes_ = 0;  // of `buffer_`: whole events, released ones included
  std::optional<error> failure_;
  std::optional<event_facts> error_event_;
  api::token_usage told_{.prompt_tokens = -1, .completion_tokens = -1};  // of shape messages
  std::optional<api::token_usage> usage_;
  std::int64_t shown_ = 0;           // of kept events
  std::int64_t shown_reported_ = 0;  // of those up to the last report
  bool started_ = false;
  bool start_now_ = false;  // what is held may go
  bool answered_ = false;   // content was seen
  bool dropped_ = false;    // the last event was
  bool progressed_ = false;
  std::uint64_t seen_choices_ = 0;  // by index, as event_facts has them
  std::uint64_t finished_choices_ = 0;
  bool done_ = false;
  bool error_sent_ = false;
};

}  // namespace weir::gateway::relay
