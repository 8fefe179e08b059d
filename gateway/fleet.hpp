// What requests are served with: configuration and targets as one immutable snapshot. A request pins
// the snapshot it started with; a reload swaps the whole or nothing. Threads: a snapshot is immutable but for
// what its routers learn; snapshot_holder may be read and swapped by any thread.
#pragma once

#include <cstdint>
#include <expected>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/auth/admin_key.hpp"
#include "gateway/auth/identity.hpp"
#include "gateway/config/config.hpp"
#include "gateway/http/byte_budget.hpp"
#include "gateway/limits/key_services.hpp"
#include "gateway/limits/ticket.hpp"
#include "gateway/observe/metrics.hpp"
#include "gateway/route/model_router.hpp"
#include "gateway/route/services.hpp"
#include "gateway/trace/request_trace.hpp"
#include "gateway/upstream/engine_upstream.hpp"
#include "gateway/upstream/http_upstream.hpp"
#include "gateway/upstream/resolver.hpp"

namespace weir::gateway::shadow {
struct destination;
}

namespace weir::gateway::kv_events {
class engine_events;
class publisher;
}  // namespace weir::gateway::kv_events

namespace weir::gateway {

// What targets of every snapshot share; outlives them.
struct fleet_services {
  observe::metrics& metrics;
  http::byte_budget& reply_budget;
  upstream::resolver names;
  std::unique_ptr<route::services> routing;
  limits::key_services& keys;
};

struct model_entry {
  std::string name;
  std::int64_t created_s = 0;
  std::int64_t context_tokens = 0;  // the largest of its targets
  std::unique_ptr<route::model_router> router;
  std::vector<limits::target_prices> prices;               // of the router's targets, in their order
  std::shared_ptr<policy::failover::share_budget> hedges;  // null: there are none
  std::shared_ptr<const shadow::destination> shadow;       // of copies of its requests; null: there are none
};

struct http_replica {
  std::shared_ptr<const upstream::origin> at;
  std::shared_ptr<upstream::upstream> target;
};

struct embedded_engine {
  std::shared_ptr<upstream::engine_upstream> target;
  std::shared_ptr<kv_events::engine_events> events;  // of its cache
};

struct snapshot {
  config::gateway_config config;
  std::shared_ptr<policy::failover::share_budget> retries;  // what attempts behind the first may be
  trace::tracer tracing;
  std::optional<auth::admin_key> admin_key;                     // nothing: who may change keys is nobody
  std::map<std::string, embedded_engine, std::less<>> engines;  // by target name
  std::map<std::string, http_replica, std::less<>> replicas;    // by target name
  std::shared_ptr<const kv_events::publisher> events;           // of a replica that publishes them; else null
  std::vector<std::shared_ptr<const model_entry>> models;       // in the file's order
  std::map<std::string, std::shared_ptr<const model_entry>, std::less<>> model_by_name;  // names and aliases

  const model_entry* find_model(std::string_view name) const;
};

// Builds a snapshot; targets whose configuration did not change are taken over from `previous` (may be null).
// Blocks while models load. The error is a sentence for the operator.
std::expected<std::shared_ptr<const snapshot>, std::string> build_snapshot(
    const config::gateway_config& config, const snapshot* previous, fleet_services& services);

// What is wrong with the files that hold secrets and certificates, in one sentence; empty: nothing.
std::string check_credentials(const config::gateway_config& config);

// Why a replica's engine answers nothing any more; empty: it does, or this is none (config.replica).
std::string replica_fault(const snapshot& snap);

class snapshot_holder final {
 public:
  std::shared_ptr<const snapshot> get() const {
    const std::lock_guard lock(mutex_);
    return current_;
  }

  // The old snapshot, and with it perhaps an engine, ends outside the lock.
  void set(std::shared_ptr<const snapshot> next) {
    const std::lock_guard lock(mutex_);
    current_.swap(next);
  }

 private:
  // Not std::atomic<std::shared_ptr>: libstdc++ 12 ends its loads with a relaxed unlock, a data race to
  // ThreadSanitizer. A mutex held for one copy costs as little.
  mutable std::mutex mutex_;
  std::shared_ptr<const snapshot> current_;  // under mutex_
};

}  // namespace weir::gateway
