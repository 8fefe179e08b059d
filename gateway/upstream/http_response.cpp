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
using policy::failover::ending;
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
  event_response(reply_parts parts, const reply_limits& limits, http::byte_budget& budget, bool drop_usage,
                 relay::event_shape shape)
      : slot_(std::move(parts.slot)),
        reader_(std::move(parts.link), parts.start, slot_->target()),
        events_({.drop_usage = drop_usage, .event_bytes_max = limits.event_bytes, .shape = shape},
                inspector()),
        hold_(budget),
        how_(parts.how),
        event_bytes_max_(limits.event_bytes) {
    if (parts.translator) translation_.emplace(std::move(parts.translator), limits.event_bytes);
    head_.status = parts.start.status;
    head_.events = true;
    head_.said_as_asked = parts.said_as_asked;
    head_.content_type = "text/event-stream; charset=utf-8";
    head_.headers = std::move(parts.start.passed_on);
  }

  const reply_head& head() const noexcept override { return head_; }
  bool complete() const noexcept override { return (ended_ && !events_.failed()) || events_.complete(); }
  api::token_usage usage() const noexcept override { return events_.usage(); }
  api::shown_output shown() const noexcept override { return {.events = events_.shown()}; }
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
        const bool alive = how_ == patience::while_alive && !events_.started();
        auto wait = alive ? reader_.wait_while_alive(deadline) : reader_.wait(deadline);
        const auto woken = co_await std::move(wait);
        outcome = reader_.waited(woken);
        if (!outcome) continue;
      }
      if (outcome == read_outcome::timeout) co_return too_late();
      if (outcome == read_outcome::broken) co_return broke(reader_.why());
      if (outcome == read_outcome::end) {
        ended_ = true;
        state = events_.end(translation_ ? translation_->end() : std::string_view());
        continue;
      }
      if (translation_) {
        const auto said = translation_->push(piece);
        if (!said) {
          co_return broke(fmt::format("sent an event of more than {} bytes", event_bytes_max_),
                          ending::malformed);
        }
        piece = *said;
      }
      state = events_.push(piece);
      if (!within_budget()) co_return too_much();
    }
  }

  attempt_failure failure() const override { return failure_; }
  bool key_refused() noexcept override { return slot_->key_refused(); }

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
    const std::size_t in_translation = translation_ ? translation_->held_bytes() : 0;
    const std::size_t held = events_.held_bytes() + reader_.buffered_bytes() + in_translation;
    return held <= k_free_bytes || hold_.grow_to(held);
  }

  std::unexpected<error> end_with(attempt_outcome outcome, ending how, error e) {
    reader_.abandon();
    slot_->end(outcome);
    failure_.how = how;
    failure_.why = e;
    return std::unexpected(std::move(e));
  }

  std::unexpected<error> give_up() {
    const error& e = events_.failure();
    const bool refused = !events_.started() && e.code == errc::bad_request;
    const auto* said = events_.error_event();
    if (said != nullptr) {
      failure_.status = said->error_status;
      failure_.code = said->error_code;
      failure_.type = said->error_type;
      failure_.message = said->error_message;
    }
    return end_with(refused ? attempt_outcome::client_error : attempt_outcome::broken,
                    said != nullptr ? ending::error_event : ending::malformed, e);
  }

  std::unexpected<error> too_late() {
    if (events_.started()) {
      return end_with(attempt_outcome::timeout, ending::stream_cut,
                      {errc::deadline_exceeded, name_and("sent nothing for too long"), {}});
    }
    const bool frozen = reader_.frozen();
    return end_with(attempt_outcome::timeout, frozen ? ending::frozen : ending::first_content_timeout,
                    {errc::deadline_exceeded,
                     name_and(frozen ? "hangs, and answers no probe" : "sent no content in time"),
                     {}});
  }

  std::unexpected<error> broke(std::string_view why, ending how = ending::stream_cut) {
    const errc code = events_.started() ? errc::stream_interrupted : errc::upstream_failed;
    return end_with(attempt_outcome::broken, how, {code, name_and(why), {}});
  }

  std::unexpected<error> too_much() {
    const errc code = events_.started() ? errc::stream_interrupted : errc::overloaded;
    return end_with(attempt_outcome::cancelled, ending::cancelled,
                    {code, "the gateway holds as many replies as its memory allows; retry later", {}});
  }

  std::string name_and(std::string_view what) const {
    return fmt::format("target '{}' {}", slot_->target()->name, what);
  }

  std::unique_ptr<attempt_slot> slot_;
  reply_reader reader_;
  relay::event_stream events_;
  http::budget_hold hold_;
  const patience how_;
  const std::size_t event_bytes_max_;
  std::optional<event_translation> translation_;
  reply_head head_;
  attempt_failure failure_;
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
        hold_(budget),
        how_(parts.how),
        translator_(std::move(parts.translator)) {
    head_.status = parts.start.status;
    head_.said_as_asked = parts.said_as_asked;
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
      const read_outcome outcome = co_await reader_.next(deadline, body_bytes_max_, piece, how_);
      if (outcome == read_outcome::end) break;
      if (outcome == read_outcome::timeout) {
        const bool frozen = reader_.frozen();
        co_return end_with(attempt_outcome::timeout, frozen ? ending::frozen : ending::first_content_timeout,
                           errc::deadline_exceeded,
                           frozen ? "hangs, and answers no probe" : "did not finish in time");
      }
      if (outcome == read_outcome::broken) {
        co_return end_with(attempt_outcome::broken, ending::stream_cut, errc::upstream_failed, reader_.why());
      }
      if (auto taken = take(piece); !taken) co_return std::unexpected(taken.error());
    }
    ended_ = true;
    co_return finish();
  }

  std::string take_body() override { return std::exchange(body_, {}); }
  attempt_failure failure() const override { return failure_; }
  bool key_refused() noexcept override { return slot_->key_refused(); }

 private:
  result<void> take(std::string_view piece) {
    const std::size_t size = body_.size() + piece.size();
    if (size > body_bytes_max_) {
      return end_with(attempt_outcome::broken, ending::malformed, errc::upstream_failed,
                      fmt::format("sent a reply of more than {} bytes", body_bytes_max_));
    }
    if (size > body_.capacity()) {
      const std::size_t capacity = std::max({size, expected_bytes_, 2 * body_.capacity()});
      if (capacity > k_free_bytes && !hold_.grow_to(capacity)) return too_much();
      body_.reserve(capacity);
    }
    body_.append(piece);
    return {};
  }

  std::unexpected<error> too_much() {
    reader_.abandon();
    failure_.how = ending::cancelled;
    failure_.why = {
        errc::overloaded, "the gateway holds as many replies as its memory allows; retry later", {}};
    return std::unexpected(failure_.why);
  }

  // Original and translation are held together for a moment.
  result<void> translate() {
    const std::size_t size = 2 * body_.size();
    if (size > std::max(k_free_bytes, body_.capacity()) && !hold_.grow_to(size)) return too_much();
    auto said = translator_->whole(std::move(body_));
    if (!said) {
      return end_with(attempt_outcome::broken, ending::malformed, errc::upstream_failed,
                      "did not answer as its dialect has it");
    }
    body_ = std::move(*said);
    return {};
  }

  result<std::string_view> finish() {
    if (head_.status < 200 || head_.status > 299) return refused();
    if (translator_) {
      if (auto said = translate(); !said) return std::unexpected(said.error());
      head_.content_type = "application/json";
    }
    const auto facts = inspector().inspect_reply(
        body_, head_.said_as_asked ? relay::event_shape::messages : relay::event_shape::chunks);
    if (!facts) {
      return end_with(attempt_outcome::broken, ending::malformed, errc::upstream_failed,
                      "did not answer with JSON");
    }
    facts_ = *facts;
    if (const auto& said = facts_.error) {
      failure_.status = said->error_status;
      failure_.code = said->error_code;
      failure_.type = said->error_type;
      failure_.message = said->error_message;
      return end_with(attempt_outcome::broken, ending::error_event, errc::upstream_failed,
                      "answered with an error");
    }
    slot_->end(attempt_outcome::ok);
    return std::string_view(body_);
  }

  std::unexpected<error> refused() {
    const bool passes = passes_to_client(head_.status);
    slot_->end(!passes || head_.status >= 500 ? attempt_outcome::server_error
                                              : attempt_outcome::client_error);
    auto words = read_error(body_);
    failure_.status = head_.status;
    failure_.code = std::move(words.code);
    failure_.type = std::move(words.type);
    failure_.message = std::move(words.message);
    failure_.why = {errc::upstream_failed,
                    fmt::format("target '{}' answered {}", slot_->target()->name, head_.status),
                    {}};
    if (auto said = translator_ ? translator_->failure(head_.status, body_) : std::nullopt) {
      head_.status = said->status;
      head_.content_type = "application/json";
      body_ = std::move(said->body);
    } else if (auto instead = normalise_error(head_.status, body_)) {
      body_ = std::move(*instead);
      head_.content_type = "application/json";
    }
    return std::unexpected(failure_.why);
  }

  std::unexpected<error> end_with(attempt_outcome outcome, ending how, errc code, std::string_view what) {
    reader_.abandon();
    slot_->end(outcome);
    failure_.how = how;
    failure_.why = {code, fmt::format("target '{}' {}", slot_->target()->name, what), {}};
    return std::unexpected(failure_.why);
  }

  std::unique_ptr<attempt_slot> slot_;
  reply_reader reader_;
  std::size_t body_bytes_max_;
  std::size_t expected_bytes_;  // what the head announced, as far as it is believed
  http::budget_hold hold_;
  const patience how_;
  std::unique_ptr<reply_translator> translator_;
  reply_head head_;
  attempt_failure failure_;
  std::string body_;
  relay::reply_facts facts_;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<response> make_event_response(reply_parts parts, const reply_limits& limits,
                                              http::byte_budget& budget, bool drop_usage,
                                              relay::event_shape shape) {
  return std::make_unique<event_response>(std::move(parts), limits, budget, drop_usage, shape);
}

std::unique_ptr<response> make_body_response(reply_parts parts, const reply_limits& limits,
                                             http::byte_budget& budget) {
  return std::make_unique<body_response>(std::move(parts), limits, budget);
}

}  // namespace weir::gateway::upstream
