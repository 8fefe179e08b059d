// One attempt at an HTTP target: the slot it holds, the connection it uses, the head it got back.
// One request, one I/O thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "gateway/http/connection.hpp"
#include "gateway/http/reply_body.hpp"
#include "gateway/http/reply_parser.hpp"
#include "gateway/upstream/origin.hpp"
#include "gateway/upstream/patience.hpp"
#include "gateway/upstream/upstream.hpp"

namespace weir::gateway::upstream {

// Holds one of the target's places from start to end of an attempt and counts how it ended, once. An attempt
// that nobody ended was cancelled.
class attempt_slot final {
 public:
  explicit attempt_slot(std::shared_ptr<const origin> target)
      : target_(std::move(target)), running_(target_->in_flight->fetch_add(1, std::memory_order_relaxed)) {}
  ~attempt_slot() {
    if (held_) end(observe::attempt_outcome::cancelled);
  }
  attempt_slot(const attempt_slot&) = delete;
  attempt_slot& operator=(const attempt_slot&) = delete;

  bool admitted() const noexcept { return running_ < target_->config.connections; }
  // Gives the place back at once: what still has to reach the client is no load for the target.
  void end(observe::attempt_outcome outcome) noexcept {
    if (!std::exchange(held_, false)) return;
    target_->in_flight->fetch_sub(1, std::memory_order_relaxed);
    if (admitted()) target_->counters.count(outcome);
  }
  const std::shared_ptr<const origin>& target() const noexcept { return target_; }

  // The key that the request was sent with.
  void use(const upstream_key* key) noexcept { key_ = key; }
  bool key_refused() const noexcept {
    if (key_ == nullptr) return false;
    key_->take_out();
    return target_->has_usable_key();
  }

 private:
  std::shared_ptr<const origin> target_;
  std::int64_t running_;               // others when this one began
  const upstream_key* key_ = nullptr;  // of target_
  bool held_ = true;
};

// A connection that is closed unless somebody says that it may live.
class held_link final {
 public:
  held_link() = default;
  explicit held_link(std::shared_ptr<http::connection> link) : link_(std::move(link)) {}
  held_link(held_link&& other) noexcept : link_(std::exchange(other.link_, nullptr)) {}
  held_link& operator=(held_link&& other) noexcept {
    std::swap(link_, other.link_);
    return *this;
  }
  ~held_link() {
    if (link_) link_->close();
  }

  http::connection& operator*() const noexcept { return *link_; }
  http::connection* operator->() const noexcept { return link_.get(); }
  explicit operator bool() const noexcept { return link_ != nullptr; }
  std::shared_ptr<http::connection> release() noexcept { return std::exchange(link_, nullptr); }

 private:
  std::shared_ptr<http::connection> link_;
};

// What a reply's head says, copied out of the connection's buffer.
struct reply_start {
  int status = 0;
  http::reply_framing framing = http::reply_framing::none;
  std::uint64_t content_length = 0;
  bool keep_alive = false;
  std::string content_type;      // as it was sent
  std::string content_encoding;  // lower case
  http::header_list passed_on;   // fields that the client may see
};

struct exchange_failure {
  error why;
  observe::attempt_outcome outcome;
  policy::failover::ending how = policy::failover::ending::malformed;
  bool stale = false;  // not a byte came back: on a reused connection the request may be sent again
};

// Sends head and body, reads the head of the final reply, and consumes it. Interim replies are skipped.
task<std::expected<reply_start, exchange_failure>> exchange_heads(http::connection& link,
                                                                  std::shared_ptr<const origin> target,
                                                                  std::string_view head,
                                                                  std::string_view body, time_point deadline,
                                                                  patience how = patience::until_deadline);

}  // namespace weir::gateway::upstream
