// What the routing of all models shares and what outlives reloads: the residency index and its store, the
// prompt memory, the scopes, the state of each target and the subscription to its KV events. Any thread
// unless said otherwise.
#pragma once

#include <expected>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gateway/config/config.hpp"
#include "gateway/kv_events/engine_events.hpp"
#include "gateway/kv_events/subscriber.hpp"
#include "gateway/observe/route_counters.hpp"
#include "gateway/prompt/prompt_memory.hpp"
#include "gateway/route/scopes.hpp"
#include "gateway/route/scraper.hpp"
#include "gateway/route/session_memory.hpp"
#include "gateway/route/target_health.hpp"
#include "gateway/route/target_state.hpp"
#include "prefix_index/index_store.hpp"
#include "prefix_index/residency_index.hpp"

namespace weir::gateway::route {

class services final {
 public:
  // Sizes, salt and folder are those of the first configuration; a later one cannot change them.
  static std::expected<std::unique_ptr<services>, std::string> open(const config::routing_config& config,
                                                                    const observe::route_counters& counters);
  ~services();

  prefix_index::residency_index& index() noexcept { return index_; }
  const prefix_index::residency_index& index() const noexcept { return index_; }
  prompt_memory& memory() noexcept { return memory_; }
  scope_table& scopes() noexcept { return scopes_; }
  session_memory& sessions() noexcept { return sessions_; }
  const observe::route_counters& counters() const noexcept { return counters_; }

  using own_events = std::shared_ptr<kv_events::engine_events>;

  // The state of a target whose chains are rooted at `model`; the old one where nothing changed. `own`: of
  // the embedded engine, where its cache is followed. The reload's thread.
  std::expected<std::shared_ptr<target_state>, std::string> state_of(const config::target_config& target,
                                                                     const std::string& model,
                                                                     std::uint32_t unit_tokens,
                                                                     const own_events& own);

  // The health of a target; the old one where its address and the terms did not change. The reload's thread.
  std::shared_ptr<target_health> health_of(const config::target_config& target,
                                           const config::failover_config& terms);

  // Opens the store where there is a folder for it. Once, behind the first states and before traffic.
  void open_store();
  // Writes what waits, while the targets still hold what they held.
  void close_store() { store_.reset(); }

  // The targets whose load is read from now on. The reload's thread.
  void follow_loads(std::vector<scraped_target> targets);

  // What is known of the KV events of each target that has any, by target.
  struct followed_events {
    std::string target;
    std::shared_ptr<const kv_events::source_status> status;  // null: of the embedded engine, in this process
    std::shared_ptr<const kv_events::event_figures> figures;
  };
  std::vector<followed_events> followed() const;

  // Lets go of what no configuration uses any more and falls back from events that do not fit. Every second.
  void sweep();

  // Keys whose records changed, for the store.
  void changed(std::span<const prefix_index::block_key> keys) {
    if (store_) store_->changed(keys);
  }

 private:
  struct entry {
    config::cache_config cache;
    config::terms_config terms;
    std::string model;
    std::uint32_t unit_tokens = 0;
    std::weak_ptr<target_state> state;
    prefix_index::replica_id id = 0;
    kv_events::subscriber::source source;
    std::shared_ptr<const kv_events::event_figures> figures;  // null: no events
    std::weak_ptr<kv_events::engine_events> own;
    int silent_sweeps = 0;  // in which its events were not connected
  };

  struct health_entry {
    config::http_target_config http;
    config::failover_config terms;
    std::weak_ptr<target_health> health;
  };

  services(const config::routing_config& config, std::string salt, const observe::route_counters& counters);
  std::shared_ptr<kv_events::stream_sink> make_sink(entry& e, const target_state& state);
  std::expected<void, std::string> subscribe(entry& e, const config::target_config& target,
                                             const target_state& state);
  void stop_listening(entry& e);
  void restarted(const std::string& target);
  prefix_index::replica_id free_id() const;

  const config::routing_config config_;
  const observe::route_counters& counters_;
  prefix_index::residency_index index_;
  prompt_memory memory_;
  scope_table scopes_;
  session_memory sessions_;
  mutable std::mutex mutex_;
  std::map<std::string, entry> entries_;         // by target name; under mutex_
  std::map<std::string, health_entry> healths_;  // by target name; the reload's thread
  std::unique_ptr<prefix_index::index_store> store_;
  std::unique_ptr<kv_events::subscriber> subscriber_;  // made under mutex_
  std::unique_ptr<scraper> scraper_;                   // before all else to end
};

}  // namespace weir::gateway::route
