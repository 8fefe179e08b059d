#include "gateway/relay/event_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace weir::gateway::relay {

namespace {

constexpr std::size_t k_kept_bytes_max = 4 << 10;  // of an empty buffer

errc to_errc(int status) noexcept {
  switch (status) {
    case 400:
    case 404:
    case 409:
    case 413:
    case 422:
      return errc::bad_request;
    case 429:
    case 503:
      return errc::overloaded;
    default:
      return errc::upstream_failed;
  }
}

// A stream of the messages API tells its counts bit by bit.
void keep_told(std::int64_t told, std::int64_t& kept) noexcept {
  if (told >= 0) kept = told;
}

}  // namespace

std::string_view event_stream::released() const noexcept {
  return std::string_view(buffer_).substr(0, out_bytes_);
}

event_stream::state event_stream::push(std::string_view bytes) {
  if (out_bytes_ > 0) {
    buffer_.erase(0, out_bytes_);
    held_bytes_ -= out_bytes_;
    out_bytes_ = 0;
    if (buffer_.empty() && buffer_.capacity() > k_kept_bytes_max) std::string().swap(buffer_);
  }
  if (failure_) return state::failed;
  progressed_ = false;
  buffer_ += bytes;
  take_events();
  return now();
}

event_stream::state event_stream::end(std::string_view last_bytes) {
  push(last_bytes);
  if (failure_) return now();
  const std::size_t whole_bytes = held_bytes_;
  const bool whole_start = start_now_;
  drop_half_event();
  for (int line_ends = 0; line_ends < 2 && !failure_ && held_bytes_ < buffer_.size(); ++line_ends) {
    buffer_ += '\n';
    take_events();
  }
  if (failure_ || done_ || finished()) return now();
  held_bytes_ = whole_bytes;
  start_now_ = whole_start;
  fail_with("the target ended its stream before the answer was complete");
  return now();
}

// What is left at the end is an event without its blank line, or a part of one.
void event_stream::drop_half_event() {
  const auto rest = std::string_view(buffer_).substr(held_bytes_);
  const auto what = inspector_.inspect(rest, options_.shape).what;
  if (what == event_kind::comment || what == event_kind::nonsense) buffer_.resize(held_bytes_);
}

event_stream::state event_stream::now() {
  if (start_now_) {
    started_ = started_ || held_bytes_ > 0;
    out_bytes_ = held_bytes_;
  }
  if (out_bytes_ > 0) return state::release;
  return failure_ ? state::failed : state::hold;
}

void event_stream::take_events() {
  take_late_lf();
  while (!failure_) {
    const std::size_t at = held_bytes_ + gap_bytes_;
    const auto size = splitter_.next(std::string_view(buffer_).substr(at));
    const std::size_t bytes = size.value_or(buffer_.size() - at);
    if (bytes > options_.event_bytes_max) {
      return fail_with(
          fmt::format("the target sent an event of more than {} bytes", options_.event_bytes_max));
    }
    if (!size || !take_event(bytes)) break;
  }
  buffer_.erase(held_bytes_, gap_bytes_);
  gap_bytes_ = 0;
}

// Dropped events leave a gap that is closed once, behind all events of a push.
void event_stream::keep_event(std::size_t bytes) {
  char* const to = buffer_.data() + held_bytes_;
  if (gap_bytes_ > 0) std::memmove(to, to + gap_bytes_, bytes);
  held_bytes_ += bytes;
}

void event_stream::cut_behind_held() {
  buffer_.resize(held_bytes_);
  gap_bytes_ = 0;
}

bool event_stream::finished() const noexcept {
  return finished_choices_ != 0 && (seen_choices_ & ~finished_choices_) == 0;
}

// The second byte of the CRLF that ends the last event goes where that event went, however they were cut.
void event_stream::take_late_lf() {
  if (!splitter_.awaits_lf() || !std::string_view(buffer_).substr(held_bytes_).starts_with('\n')) return;
  splitter_ = event_splitter();
  if (dropped_) {
    buffer_.erase(held_bytes_, 1);
  } else {
    ++held_bytes_;
  }
}

bool event_stream::take_event(std::size_t bytes) {
  const auto event = std::string_view(buffer_).substr(held_bytes_ + gap_bytes_, bytes);
  const auto facts = inspector_.inspect(event, options_.shape);
  seen_choices_ |= facts.seen_choices;
  finished_choices_ |= facts.finished_choices;
  if (facts.what == event_kind::error) {
    take_error(facts, bytes);
    return false;
  }
  const bool comment = facts.what == event_kind::comment;
  const bool last = facts.what == event_kind::last;
  // Some send [DONE] behind the last event of the responses API too.
  const bool done_too = options_.shape != event_shape::chunks && facts.what == event_kind::done;
  const bool late = done_ && !comment && !done_too;
  if (facts.what == event_kind::nonsense || late) {
    fail_with(done_ ? "the target went on after the end of its stream"
                    : "the target sent an event that is not a JSON object");
    return false;
  }
  if (facts.what == event_kind::done && !answered_) {
    fail_with("the target ended its stream without an answer");
    return false;
  }
  dropped_ = facts.what == event_kind::usage && options_.drop_usage;
  if (dropped_) {
    take_usage(facts);
    gap_bytes_ += bytes;
    return true;
  }
  keep_event(bytes);
  shown_ += facts.shown_choices;
  take_usage(facts);
  progressed_ = progressed_ || !comment;
  done_ = done_ || facts.what == event_kind::done || last;
  answered_ = answered_ || facts.what == event_kind::content || last;
  start_now_ = start_now_ || answered_ || held_bytes_ > k_preamble_bytes_max;
  return true;
}

void event_stream::take_usage(const event_facts& facts) noexcept {
  if (!facts.usage || (facts.usage->prompt_tokens <= 0 && facts.usage->completion_tokens <= 0)) return;
  if (options_.shape == event_shape::messages) {
    keep_told(facts.usage->prompt_tokens, told_.prompt_tokens);
    keep_told(facts.usage->completion_tokens, told_.completion_tokens);
    keep_told(facts.usage->cached_tokens, told_.cached_tokens);
    keep_told(facts.usage->cache_write_tokens, told_.cache_write_tokens);
    usage_ = whole_usage(told_);
  } else {
    usage_ = facts.usage;
  }
  shown_reported_ = shown_;
}

api::token_usage event_stream::usage() const noexcept {
  if (!usage_) return {};
  api::token_usage out = *usage_;
  if (shown_ > shown_reported_) out.completion_tokens = std::max(out.completion_tokens, shown());
  return out;
}

// Before the first content an error is the answer; behind it, it is the last event.
void event_stream::take_error(const event_facts& facts, std::size_t bytes) {
  error_event_ = facts;
  if (!start_now_) {
    const errc code = to_errc(facts.error_status);
    failure_ = error{code, facts.error_message.empty() ? "the target failed" : facts.error_message, {}};
  } else {
    keep_event(bytes);
    error_sent_ = true;
    failure_ = error{errc::stream_interrupted, "the target failed within its stream", {}};
  }
  cut_behind_held();
}

void event_stream::fail_with(std::string what) {
  failure_ = error{start_now_ ? errc::stream_interrupted : errc::upstream_failed, std::move(what), {}};
  cut_behind_held();
}

}  // namespace weir::gateway::relay
