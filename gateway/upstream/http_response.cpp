#include "gateway/upstream/http_response.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gateway/relay/event_inspector.hpp"
#include "gateway/relay/event_stream.hpp"
#include "gateway/upstream/error_reply.hpp"
#include "gateway/upstream/reply_reader.hpp"

namespace weir::gateway::upstream {

namespace {

using observe::attempt_outcome;
using stream_state = relay::event_stream::state;

// A stream's first buffers are part of its fixed cost; what grows beyond them is charged to the budget.
constexpr std::size_t k_free_bytes = 16 << 10;
constexpr std::size_t k_piece_bytes_max = std::size_t{8} << 20;     // one decoded piece of a compressed reply
constexpr std::size_t k_reserved_bytes_max = std::size_t{1} << 20;  // on the word of a content-length

relay::event_inspector& inspector() {
  thread_local relay::event_inspector one;
  return one;
}

class event_response final : public response {
 public:
  event_response(reply_parts parts, const reply_limits& limits, http::byte_budget& budget, bool drop_usage)
      : slot_(std::move(parts.slot)),
        reader_(std::move(parts.link), parts.start, slot_->target()),
        events_({.drop_usage = drop_usage, .event_bytes_max = limits.event_bytes}, inspector()),
        hold_(budget) {
    head_.status = parts.start.status;
    head_.events = true;
    head_.content_type = "text/event-stream; charset=utf-8";
    head_.headers = std::move(parts.start.passed_on);
  }

  const reply_head& head() const noexcept override { return head_; }
  bool complete() const noexcept override { return (ended_ && !events_.failed()) || events_.complete(); }
  api::token_usage usage() const noexcept override { return events_.usage(); }
  api::shown_output shown() const noexcept override { return {.events = events_.shown()}; }
  bool refused() const noexcept override { return events_.refused(); }
  bool error_sent() const noexcept override { return events_.error_sent(); }

  task<result<std::string_view>> next(time_point deadline) override {
    // Comments pass, but a target that sends nothing else is no better than a silent one.
    if (events_.started() && !events_.progressed()) deadline = std::min(deadline, deadline_);
    deadline_ = deadline;
    stream_state state = ended_ ? stream_state::hold : events_.push({});
    while (true) {
      if (state == stream_state::release) {
        if (complete()) slot_->end(attempt_outcome::ok);
        co_return events_.released();
      }
      if (state == stream_state::failed) co_return give_up();
      if (ended_) {
        slot_->end(attempt_outcome::ok);
        co_return std::string_view();
      }
      std::string_view piece;
      auto outcome = reader_.ready(k_piece_bytes_max, piece);
      if (!outcome) {
        const auto woken = co_await reader_.wait(deadline);
        outcome = reader_.waited(woken);
        if (!outcome) continue;
      }
      if (outcome == read_outcome::timeout) co_return too_late();
      if (outcome == read_outcome::broken) co_return broke(reader_.why());
      if (outcome == read_outcome::end) {
        ended_ = true;
        state = events_.end();
        continue;
      }
      state = events_.push(piece);
      if (!within_budget()) co_return too_much();
    }
  }

  std::string take_body() override { return {}; }

  // The end of the body comes right behind the last event; with it the connection can serve again.
  task<void> settle(time_point deadline) override {
    std::string_view piece;
    while (!ended_) {
      const read_outcome outcome = co_await reader_.next(deadline, k_piece_bytes_max, piece);
      if (outcome == read_outcome::data) continue;
      if (outcome != read_outcome::end) reader_.abandon();
      ended_ = true;
    }
  }

 private:
  bool within_budget() {
    const std::size_t held = events_.held_bytes() + reader_.buffered_bytes();
    return held <= k_free_bytes || hold_.grow_to(held);
  }

  std::unexpected<error> end_with(attempt_outcome outcome, error e) {
    reader_.abandon();
    slot_->end(outcome);
    return std::unexpected(std::move(e));
  }

  std::unexpected<error> give_up() {
    const error& e = events_.failure();
    const bool refused = !events_.started() && e.code == errc::bad_request;
    return end_with(refused ? attempt_outcome::client_error : attempt_outcome::broken, e);
  }

  std::unexpected<error> too_late() {
    const char* what = events_.started() ? "sent nothing for too long" : "sent no content in time";
    return end_with(attempt_outcome::timeout, {errc::deadline_exceeded, name_and(what), {}});
  }

  std::unexpected<error> broke(std::string_view why) {
    const errc code = events_.started() ? errc::stream_interrupted : errc::upstream_failed;
    return end_with(attempt_outcome::broken, {code, name_and(why), {}});
  }

  std::unexpected<error> too_much() {
    const errc code = events_.started() ? errc::stream_interrupted : errc::overloaded;
    return end_with(attempt_outcome::cancelled,
                    {code, "the gateway holds as many replies as its memory allows; retry later", {}});
  }

  std::string name_and(std::string_view what) const {
    return fmt::format("target '{}' {}", slot_->target()->name, what);
  }

  std::unique_ptr<attempt_slot> slot_;
  reply_reader reader_;
  relay::event_stream events_;
  http::budget_hold hold_;
  reply_head head_;
  time_point deadline_ = time_point::max();
  bool ended_ = false;
};

class body_response final : public response {
 public:
  body_response(reply_parts parts, const reply_limits& limits, http::byte_budget& budget)
      : slot_(std::move(parts.slot)),
        reader_(std::move(parts.link), parts.start, slot_->target()),
        body_bytes_max_(limits.body_bytes),
        expected_bytes_(std::min<std::uint64_t>(parts.start.content_length, k_reserved_bytes_max)),
        hold_(budget) {
    head_.status = parts.start.status;
    if (!parts.start.content_type.empty()) head_.content_type = std::move(parts.start.content_type);
    head_.headers = std::move(parts.start.passed_on);
  }

  const reply_head& head() const noexcept override { return head_; }
  bool complete() const noexcept override { return ended_; }
  api::token_usage usage() const noexcept override { return facts_.usage; }
  api::shown_output shown() const noexcept override { return {.content_bytes = facts_.content_bytes}; }

  task<result<std::string_view>> next(time_point deadline) override {
    if (ended_) co_return std::string_view();
    std::string_view piece;
    while (true) {
      const read_outcome outcome = co_await reader_.next(deadline, body_bytes_max_, piece);
      if (outcome == read_outcome::end) break;
      if (outcome == read_outcome::timeout) {
        co_return end_with(attempt_outcome::timeout, errc::deadline_exceeded, "did not finish in time");
      }
      if (outcome == read_outcome::broken) {
        co_return end_with(attempt_outcome::broken, errc::upstream_failed, reader_.why());
      }
      if (auto taken = take(piece); !taken) co_return std::unexpected(taken.error());
    }
    ended_ = true;
    co_return finish();
  }

  std::string take_body() override { return std::exchange(body_, {}); }

 private:
  result<void> take(std::string_view piece) {
    const std::size_t size = body_.size() + piece.size();
    if (size > body_bytes_max_) {
      return end_with(attempt_outcome::broken, errc::upstream_failed,
                      fmt::format("sent a reply of more than {} bytes", body_bytes_max_));
    }
    if (size > body_.capacity()) {
      const std::size_t capacity = std::max({size, expected_bytes_, 2 * body_.capacity()});
      if (capacity > k_free_bytes && !hold_.grow_to(capacity)) {
        reader_.abandon();
        return fail(errc::overloaded, "the gateway holds as many replies as its memory allows; retry later");
      }
      body_.reserve(capacity);
    }
    body_.append(piece);
    return {};
  }

  result<std::string_view> finish() {
    if (head_.status >= 400) {
      slot_->end(head_.status >= 500 ? attempt_outcome::server_error : attempt_outcome::client_error);
      if (auto instead = normalise_error(head_.status, body_)) {
        body_ = std::move(*instead);
        head_.content_type = "application/json";
      }
      return std::string_view(body_);
    }
    const auto facts = inspector().inspect_reply(body_);
    if (!facts) return end_with(attempt_outcome::broken, errc::upstream_failed, "did not answer with JSON");
    facts_ = *facts;
    slot_->end(attempt_outcome::ok);
    return std::string_view(body_);
  }

  std::unexpected<error> end_with(attempt_outcome outcome, errc code, std::string_view what) {
    reader_.abandon();
    slot_->end(outcome);
    return fail(code, fmt::format("target '{}' {}", slot_->target()->name, what));
  }

  std::unique_ptr<attempt_slot> slot_;
  reply_reader reader_;
  std::size_t body_bytes_max_;
  std::size_t expected_bytes_;  // what the head announced, as far as it is believed
  http::budget_hold hold_;
  reply_head head_;
  std::string body_;
  relay::reply_facts facts_;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<response> make_event_response(reply_parts parts, const reply_limits& limits,
                                              http::byte_budget& budget, bool drop_usage) {
  return std::make_unique<event_response>(std::move(parts), limits, budget, drop_usage);
}

std::unique_ptr<response> make_body_response(reply_parts parts, const reply_limits& limits,
                                             http::byte_budget& budget) {
  return std::make_unique<body_response>(std::move(parts), limits, budget);
}

}  // namespace weir::gateway::upstream
