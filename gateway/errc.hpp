// Every expected failure of the gateway, and one table from it to what a client sees: HTTP status, OpenAI
// error type and code. Immutable; any thread.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace weir::gateway {

enum class errc {
  bad_request,         // a body or parameter the API does not allow
  context_length,      // the prompt and max_tokens do not fit the model
  unsupported,         // valid OpenAI, but no target of this model can do it
  missing_key,         // no credential where one is required
  invalid_key,         // a credential that is not known; says no more than that
  requests_limited,    // the key's requests a minute or at once
  tokens_limited,      // the key's tokens a minute
  budget_exhausted,    // the key's money for the day or month
  limit_too_small,     // more than the key's whole limit: it will never pass
  ledger_unavailable,  // budgets cannot be kept: keys with one wait
  forbidden,           // known key, not allowed here
  model_not_found,     // no such model for this key
  key_not_found,       // no such key or tenant, for those who administer them
  conflict,            // what is there does not allow it: a name taken, a key revoked
  misdirected,         // a Host that this listener is not meant for
  unknown_url,         // no such path
  method_not_allowed,  // the path exists with other methods
  body_too_large,      // over the route's body limit
  unsupported_media,   // a body that is not JSON
  body_timeout,        // the client stopped sending its body
  bad_framing,         // chunked body or trailers break HTTP; the connection closes
  headers_too_large,   // trailers over their limit; the connection closes
  overloaded,          // our queue, memory budget or stream limit is full; retry later
  draining,            // shutting down; retry elsewhere
  upstream_failed,     // the target broke before the first content
  stream_interrupted,  // the target broke after the first content
  deadline_exceeded,   // the request's time is up
  client_gone,         // the client disconnected; nothing is sent
  internal,            // a fault of ours
};

struct error {
  errc code;
  std::string
      message;  // for the client: what was wrong and what to do; never a secret, never another tenant's data
  std::string param;                // the request field at fault, or empty
  std::int64_t retry_after_ms = 0;  // when the same request may pass; 0: not known
};

template <class T>
using result = std::expected<T, error>;

inline std::unexpected<error> fail(errc code, std::string message, std::string param = {}) {
  return std::unexpected(error{code, std::move(message), std::move(param)});
}

struct errc_info {
  int status;             // HTTP status
  std::string_view type;  // error.type in OpenAI's shape
  std::string_view code;  // error.code, empty = null
  bool retryable;         // whether the same request may succeed later
};

const errc_info& info(errc code) noexcept;

}  // namespace weir::gateway
