#include "policy/failover/failure.hpp"

#include <array>

#include "policy/failover/wording.hpp"

namespace weir::policy::failover {

namespace {

using enum failure_kind;

struct row {
  failure_traits traits;
  std::string_view text;
};

constexpr std::array<row, k_failure_kinds> make_rows() {
  using scope = retry_scope;
  using effect = breaker_effect;
  using reply = client_reply;
  std::array<row, k_failure_kinds> rows{};
  const auto set = [&rows](failure_kind kind, std::string_view text, scope retry, effect breaker,
                           reply client, bool holds = false, bool key_out = false) {
    rows[static_cast<std::size_t>(kind)] = {{retry, breaker, holds, key_out, client}, text};
  };
  set(none, "none", scope::none, effect::success, reply::relayed);
  set(cancelled, "cancelled", scope::none, effect::neutral, reply::nothing);
  set(failure_kind::client_gone, "client_gone", scope::none, effect::neutral, reply::nothing);
  set(out_of_time, "out_of_time", scope::none, effect::neutral, reply::timed_out);
  set(stale_connection, "stale_connection", scope::fresh_connection, effect::neutral, reply::bad_gateway);
  set(unreachable, "unreachable", scope::other_target, effect::failure, reply::bad_gateway);
  set(broken, "broken", scope::other_target, effect::failure, reply::bad_gateway);
  set(server_error, "server_error", scope::other_target, effect::failure, reply::bad_gateway);
  set(unavailable, "unavailable", scope::other_target, effect::failure, reply::unavailable);
  set(too_slow, "too_slow", scope::other_target, effect::failure, reply::timed_out);
  set(failure_kind::frozen, "frozen", scope::other_target, effect::failure, reply::timed_out);
  set(overloaded, "overloaded", scope::other_target, effect::neutral, reply::unavailable, true);
  set(rate_limited, "rate_limited", scope::other_target, effect::neutral, reply::unavailable, true);
  set(quota_exhausted, "quota_exhausted", scope::other_target, effect::neutral, reply::bad_gateway, false,
      true);
  set(key_refused, "key_refused", scope::other_target, effect::neutral, reply::bad_gateway, false, true);
  set(misconfigured, "misconfigured", scope::other_target, effect::neutral, reply::bad_gateway, true);
  set(try_again, "try_again", scope::other_target, effect::neutral, reply::pass_through);
  set(context_overflow, "context_overflow", scope::larger_window, effect::neutral, reply::context_length);
  set(too_large, "too_large", scope::larger_window, effect::neutral, reply::pass_through);
  set(failure_kind::unsupported, "unsupported", scope::other_target, effect::neutral, reply::pass_through);
  set(refused, "refused", scope::none, effect::neutral, reply::pass_through);
  set(interrupted, "interrupted", scope::none, effect::failure, reply::error_event);
  set(stopped, "stopped", scope::none, effect::neutral, reply::error_event);
  set(shed, "shed", scope::none, effect::neutral, reply::unavailable);
  return rows;
}

constexpr auto k_rows = make_rows();

// 402, 403 and 429 of a hosted API, and Anthropic's 400: our account there has no money left.
bool is_quota(const attempt_end& end, const error_words& words) noexcept {
  return says_quota_code(words) || (end.retry_after_ns == 0 && says_quota_text(words));
}

failure_kind of_unauthorised(const attempt_end& end, const error_words& words) noexcept {
  if (is_quota(end, words)) return quota_exhausted;
  // Kimi's coding plan answers 401 to a prompt beyond the window that was paid for.
  if (says_context_overflow(words) || mentions_window(words)) return context_overflow;
  if (end.status == 403 && says_moderation(words)) return refused;
  return key_refused;
}

failure_kind of_not_found(const error_words& words) noexcept {
  // Without an error object it is a path that the target does not have; with one it may be an object that the
  // client named.
  if (words.code.empty() && words.type.empty()) return misconfigured;
  return says_unknown_model(words) ? misconfigured : refused;
}

failure_kind of_client_error(const attempt_end& end, const error_words& words) noexcept {
  switch (end.status) {
    case 401:
    case 403:
      return of_unauthorised(end, words);
    case 402:
      return quota_exhausted;
    case 404:
      return of_not_found(words);
    case 405:
    case 407:
    case 410:
    case 421:
    case 426:
      return misconfigured;
    case 408:
    case 425:
      return try_again;
    case 413:
      if (says_rate_limit(words)) return rate_limited;
      return says_context_overflow(words) ? context_overflow : too_large;
    case 429:
      if (is_quota(end, words)) return quota_exhausted;
      if (says_rate_limit(words)) return rate_limited;
      return says_overloaded(words) ? overloaded : rate_limited;
    default:
      if (says_quota_code(words) || says_no_credit(words)) return quota_exhausted;
      return says_context_overflow(words) ? context_overflow : refused;
  }
}

failure_kind of_server_error(const attempt_end& end, const error_words& words) noexcept {
  if (says_context_overflow(words)) return context_overflow;
  switch (end.status) {
    case 501:
    case 505:
      return misconfigured;
    case 503:
      return end.retry_after_ns > 0 || says_overloaded(words) ? overloaded : unavailable;
    case 504:
    case 524:
      return too_slow;
    case 529:
      return overloaded;
    case 502:
    case 520:
    case 521:
    case 522:
    case 523:
      return unavailable;
    default:
      return says_overloaded(words) ? overloaded : server_error;
  }
}

failure_kind of_status(const attempt_end& end) noexcept {
  const error_words words{end.code, end.type, end.message};
  if (end.status >= 500) return of_server_error(end, words);
  if (end.status >= 400) return of_client_error(end, words);
  return misconfigured;
}

// An error in a stream rarely names a status: then its words are all there is.
failure_kind of_event(const attempt_end& end) noexcept {
  if (end.status >= 400) return of_status(end);
  const error_words words{end.code, end.type, end.message};
  if (is_quota(end, words)) return quota_exhausted;
  if (says_context_overflow(words)) return context_overflow;
  if (says_overloaded(words)) return overloaded;
  if (says_rate_limit(words)) return rate_limited;
  if (says_bad_key(words)) return key_refused;
  return says_bad_request(words) || says_moderation(words) ? refused : server_error;
}

failure_kind of_early(const attempt_end& end) noexcept {
  switch (end.how) {
    case ending::answered:
      return none;
    case ending::dial_failed:
    case ending::tls_failed:
      return unreachable;
    case ending::reset_reused:
      return stale_connection;
    case ending::status:
      return of_status(end);
    case ending::error_event:
      return of_event(end);
    case ending::first_content_timeout:
      return too_slow;
    case ending::frozen:
      return failure_kind::frozen;
    case ending::deadline:
      return out_of_time;
    case ending::no_place:
      return overloaded;
    case ending::unsupported:
      return failure_kind::unsupported;
    case ending::cancelled:
      return cancelled;
    case ending::client_gone:
      return failure_kind::client_gone;
    case ending::reset_before_head:
    case ending::stream_cut:
    case ending::malformed:
      return broken;
  }
  return broken;
}

}  // namespace

failure_kind classify(const attempt_end& end) noexcept {
  const auto kind = of_early(end);
  if (!end.after_content) return kind;
  if (kind == none || kind == cancelled || kind == failure_kind::client_gone) return kind;
  const bool counts = traits_of(kind).breaker == breaker_effect::failure || kind == stale_connection;
  return counts ? interrupted : stopped;
}

const failure_traits& traits_of(failure_kind kind) noexcept {
  return k_rows[static_cast<std::size_t>(kind)].traits;
}

std::string_view to_text(failure_kind kind) noexcept {
  return k_rows[static_cast<std::size_t>(kind)].text;
}

int status_of(client_reply reply) noexcept {
  switch (reply) {
    case client_reply::context_length:
      return 400;
    case client_reply::bad_gateway:
      return 502;
    case client_reply::unavailable:
      return 503;
    case client_reply::timed_out:
      return 504;
    case client_reply::relayed:
    case client_reply::nothing:
    case client_reply::pass_through:
    case client_reply::error_event:
      return 0;
  }
  return 502;
}

}  // namespace weir::policy::failover
