// What the end of an attempt means: whether another target may be tried, what the target's breaker makes of
// it, whether the key that we use there is spent, and what the client gets when nobody else answers.
//
// The words of an error belong to the target, which may quote the client: they choose between kinds, they
// never reach a decision that outlives the request on the client's word alone (a flagged prompt takes no key
// out). Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weir::policy::failover {

// For so long an upstream key that was refused or has no money is not used; keys get mended, and nobody
// tells.
inline constexpr std::int64_t k_key_out_ns = 300'000'000'000;

// How an attempt ended, as the gateway sees it.
enum class ending : std::uint8_t {
  answered,               // to its end
  dial_failed,            // refused, no route, no name, no connection in time
  tls_failed,             // no handshake, a wrong certificate
  reset_reused,           // a pooled connection broke before a byte came: it may have been closed long ago
  reset_before_head,      // the connection broke before a response head
  status,                 // a final status other than 2xx
  error_event,            // an error within a stream that began with 200
  first_content_timeout,  // the target had its whole time and sent no content
  frozen,                 // no byte, and a probe of the target was missed too (freeze.hpp)
  stream_cut,             // a body or stream without its proper end, or silent for too long
  malformed,              // bytes that are not the protocol
  deadline,               // the request's time was up; the target did not have its own
  no_place,               // never sent: the target runs as many as it takes; attempts::unplaced()
  unsupported,            // never sent: the target's API cannot say what the request asks
  cancelled,              // by us: another attempt won, or we stop
  client_gone,
};

struct attempt_end {
  ending how = ending::answered;
  bool after_content = false;  // the attempt's first content has come
  int status = 0;              // of `status`; of `error_event` where it names one
  std::string_view code;       // of the error object; empty where it has none
  std::string_view type;
  std::string_view message;         // or the whole body where it is no error object
  std::int64_t retry_after_ns = 0;  // 0: not said
};

enum class failure_kind : std::uint8_t {
  none,              // no failure
  cancelled,         // by us
  client_gone,       // by the client
  out_of_time,       // the request's deadline
  stale_connection,  // the same target again, on a fresh connection, for free
  unreachable,       // no connection
  broken,            // broke, or sent nonsense, before the first content
  server_error,      // 500 and the like
  unavailable,       // 502, 503: nobody behind it
  too_slow,          // no content in time
  frozen,            // hangs, and answers no probe
  overloaded,        // back-pressure of an engine that is alive
  rate_limited,      // a limit of our key there
  quota_exhausted,   // our money there is spent
  key_refused,       // our key there is not accepted
  misconfigured,     // redirects, unknown paths, unknown model: between us and the target
  try_again,         // 408, 425: neither's fault
  context_overflow,  // the prompt does not fit this target's window
  too_large,         // the body does not fit this target's limit
  unsupported,       // the target's API cannot say what the request asks
  refused,           // the request itself is at fault: the target's answer is the answer
  interrupted,       // broke after the first content
  stopped,           // after the first content, by an error that says nothing against the target
  shed,              // by us, before it was given to any target
};
inline constexpr std::size_t k_failure_kinds = 24;

enum class retry_scope : std::uint8_t { none, fresh_connection, other_target, larger_window };

enum class breaker_effect : std::uint8_t { success, failure, neutral };

// What the client gets if this is how its request ends.
enum class client_reply : std::uint8_t {
  relayed,         // the answer itself
  nothing,         // nobody listens
  pass_through,    // the target's own status and error
  context_length,  // 400 context_length_exceeded
  bad_gateway,     // 502
  unavailable,     // 503, with a Retry-After where one is known; 429 is for the caller's own limits alone
  timed_out,       // 504
  error_event,     // the stream has begun: an error event and an abnormal end
};

struct failure_traits {
  retry_scope retry = retry_scope::none;
  breaker_effect breaker = breaker_effect::neutral;
  bool holds_target = false;   // nobody should use it before its Retry-After, or for a moment without one
  bool takes_key_out = false;  // the upstream key is of no use for now
  client_reply reply = client_reply::bad_gateway;
};

failure_kind classify(const attempt_end& end) noexcept;
const failure_traits& traits_of(failure_kind kind) noexcept;
int status_of(client_reply reply) noexcept;  // 0: none of its own
std::string_view to_text(failure_kind kind) noexcept;

}  // namespace weir::policy::failover
