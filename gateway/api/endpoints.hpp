// The routes of the API and admin listeners as tables, and what a handler gets. A path outside the tables
// does not exist. Immutable; any thread.
#pragma once

#include <atomic>
#include <boost/beast/http/verb.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "gateway/auth/authenticate.hpp"
#include "gateway/fleet.hpp"
#include "gateway/http/exchange.hpp"
#include "gateway/observe/metrics.hpp"
#include "gateway/observe/request_probe.hpp"
#include "gateway/shadow/hub.hpp"

namespace weir::gateway::api {

// State shared by all requests; outlives them.
struct server_state {
  snapshot_holder snapshots;
  observe::metrics metrics;
  limits::key_services keys;
  shadow::hub shadows;  // ends before the ledger that it writes to
  std::atomic<bool> draining = false;
};

struct request_context {
  http::exchange& exchange;
  server_state& state;
  std::shared_ptr<const snapshot> snap;  // pinned for the whole request
  auth::identity caller;
  observe::request_probe& probe;
  std::string_view path_part;     // what stands where the route's path has its part; not decoded
  bool* said_as_asked = nullptr;  // made true where an answer is in the client's own API, if that is another
};

using handler = task<void> (*)(request_context& context);

enum class access {
  open,
  key,           // an API key
  admin,         // the admin key
  admin_if_set,  // the admin key where one is configured; else whoever reaches the listener
};

// How a path's clients read errors.
enum class error_shape { chat, messages };

struct endpoint {
  // Literal, but for one {part}: a segment, or {rest...}: all that follows.
  std::string_view path;
  boost::beast::http::verb method;
  access needs;
  std::string_view label;  // in metrics and logs
  handler serve;
  error_shape errors = error_shape::chat;
};

std::span<const endpoint> api_endpoints() noexcept;
std::span<const endpoint> admin_endpoints() noexcept;
std::span<const endpoint> replica_endpoints() noexcept;  // of the API listener of `weir engine`

// The part of a path that fits the pattern, empty for a literal one; nothing where it does not fit.
std::optional<std::string_view> match_path(std::string_view pattern, std::string_view path) noexcept;

task<void> serve_chat(request_context& context);
task<void> serve_completions(request_context& context);
task<void> serve_embeddings(request_context& context);
task<void> serve_responses(request_context& context);
task<void> serve_messages(request_context& context);
task<void> serve_count_tokens(request_context& context);
task<void> serve_tokenize(request_context& context);
task<void> serve_models(request_context& context);
task<void> serve_model(request_context& context);
task<void> serve_health(request_context& context);
task<void> serve_ready(request_context& context);
task<void> serve_metrics(request_context& context);
task<void> serve_replica_metrics(request_context& context);  // with vLLM's names besides
task<void> serve_explain(request_context& context);

}  // namespace weir::gateway::api
