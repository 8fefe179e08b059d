#include "gateway/route/services.hpp"

#include <fmt/format.h>
#include <openssl/rand.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "prefix_index/event_source.hpp"

namespace weir::gateway::route {

namespace {

// About seconds.
constexpr int k_silent_sweeps = 10;

constexpr std::int64_t k_open_ms_max = 300'000;

std::uint64_t random_seed() {
  std::uint64_t seed = 1;
  RAND_bytes(reinterpret_cast<unsigned char*>(&seed), sizeof seed);
  return seed;
}

// What the embedded engine holds ends with this process.
bool is_stored(const config::cache_config& cache) {
  return cache.on && cache.events != kv_events::k_own_engine;
}

}  // namespace

services::services(const config::routing_config& config, std::string salt,
                   const observe::route_counters& counters)
    : config_(config),
      counters_(counters),
      index_({.bytes_max = static_cast<std::size_t>(config.index_bytes), .seed = random_seed()}),
      memory_(static_cast<std::size_t>(config.prompt_memory_bytes)),
      scopes_(std::move(salt)) {}

services::~services() {
  scraper_.reset();
  subscriber_.reset();
  store_.reset();
}

std::expected<std::unique_ptr<services>, std::string> services::open(
    const config::routing_config& config, const observe::route_counters& counters) {
  auto salt = load_site_salt(config.state_dir);
  if (!salt) return std::unexpected(salt.error());
  return std::unique_ptr<services>(new services(config, std::move(*salt), counters));
}

prefix_index::replica_id services::free_id() const {
  prefix_index::replica_id id = 0;
  const auto taken = [&](const auto& e) { return e.second.id == id && !e.second.state.expired(); };
  while (std::any_of(entries_.begin(), entries_.end(), taken)) ++id;
  return id;
}

std::expected<std::shared_ptr<target_state>, std::string> services::state_of(
    const config::target_config& target, const std::string& model, std::uint32_t unit_tokens,
    const own_events& own) {
  const std::lock_guard lock(mutex_);
  auto& e = entries_[target.name];
  auto state = e.state.lock();
  const bool same = e.cache == target.cache && e.terms == target.terms && e.model == model &&
                    e.unit_tokens == unit_tokens && e.own.lock() == own;
  if (state && same) return state;
  stop_listening(e);
  e = {.cache = target.cache, .terms = target.terms, .model = model, .unit_tokens = unit_tokens};
  const auto id = free_id();
  if (id >= prefix_index::k_replicas_max) {
    return std::unexpected(fmt::format("more than {} targets", prefix_index::k_replicas_max));
  }
  e.id = id;
  index_.clear(id);
  state = std::make_shared<target_state>(index_, id, target, unit_tokens);
  e.state = state;
  if (store_ && is_stored(target.cache)) {
    store_->add({.name = target.name, .id = id, .model = state->model()});
  }
  if (own) {
    e.own = own;
    own->follow(make_sink(e, *state));
  } else if (!target.cache.events.empty()) {
    if (auto subscribed = subscribe(e, target, *state); !subscribed) {
      return std::unexpected(fmt::format("target '{}': {}", target.name, subscribed.error()));
    }
  }
  return state;
}

std::shared_ptr<target_health> services::health_of(const config::target_config& target,
                                                   const config::failover_config& terms) {
  auto& e = healths_[target.name];
  auto health = e.health.lock();
  if (health && e.http == target.http && e.terms == terms) return health;
  constexpr std::int64_t k_ns_per_ms = 1'000'000;
  const policy::failover::breaker_terms breaking{
      .consecutive_max = static_cast<int>(terms.failures),
      .open_ns = terms.open_ms * k_ns_per_ms,
      .open_max_ns = std::max(terms.open_ms, k_open_ms_max) * k_ns_per_ms,
      .slow_start_ns = terms.slow_start_ms * k_ns_per_ms};
  health = std::make_shared<target_health>(breaking, random_seed());
  e = {.http = target.http, .terms = terms, .health = health};
  return health;
}

std::shared_ptr<kv_events::stream_sink> services::make_sink(entry& e, const target_state& state) {
  const bool salted = e.cache.salted;
  const auto roots = [this, model = e.model, salted](std::string_view adapter, std::string_view cache_salt) {
    if (salted || !cache_salt.empty()) return scopes_.root_of(model, adapter, cache_salt);
    return std::optional(scopes_.shared_root(model, adapter));
  };
  auto sink = std::make_shared<kv_events::index_sink>(std::make_unique<prefix_index::event_source>(
      index_, state.id(),
      prefix_index::event_source_options{.unit_tokens = e.unit_tokens,
                                         .has_checkpoints = e.cache.checkpoint_tokens > 0,
                                         .seed = random_seed()},
      roots));
  e.figures = sink->figures();
  return sink;
}

std::vector<services::followed_events> services::followed() const {
  const std::lock_guard lock(mutex_);
  std::vector<followed_events> out;
  for (const auto& [name, e] : entries_) {
    const bool known = e.figures && !e.state.expired();
    if (known) out.push_back({.target = name, .status = e.source.status, .figures = e.figures});
  }
  return out;
}

void services::stop_listening(entry& e) {
  if (e.source.id != 0) subscriber_->remove(e.source.id);
  if (const auto own = e.own.lock()) own->follow(nullptr);
}

std::expected<void, std::string> services::subscribe(entry& e, const config::target_config& target,
                                                     const target_state& state) {
  if (!subscriber_) {
    subscriber_ = std::make_unique<kv_events::subscriber>([](std::string_view source, std::string_view what) {
      spdlog::warn("KV events of target '{}': {}", source, what);
    });
  }
  auto added = subscriber_->add({.name = target.name,
                                 .endpoint = target.cache.events,
                                 .replay_endpoint = target.cache.replay,
                                 .topic = target.cache.topic},
                                make_sink(e, state));
  if (!added) return std::unexpected(added.error());
  e.source = std::move(*added);
  return {};
}

void services::follow_loads(std::vector<scraped_target> targets) {
  if (!scraper_) {
    if (targets.empty()) return;
    scraper_ = std::make_unique<scraper>([this](const std::string& target) { restarted(target); });
  }
  scraper_->follow(std::move(targets));
}

// Its events may be silent about it: the first of the new process follow on nothing that was missed.
void services::restarted(const std::string& target) {
  kv_events::subscriber* events = nullptr;
  kv_events::subscriber::source_id id = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(target);
    if (found == entries_.end()) return;
    id = found->second.source.id;
    events = subscriber_.get();
  }
  if (id != 0) events->reset(id);
}

void services::open_store() {
  if (config_.state_dir.empty()) {
    const std::lock_guard lock(mutex_);
    const bool salted = std::any_of(entries_.begin(), entries_.end(), [](const auto& e) {
      return is_stored(e.second.cache) && e.second.cache.salted;
    });
    if (salted) {
      spdlog::warn(
          "routing.state_dir is not set: each start has a new salt, and what replicas have cached under the "
          "old "
          "one is lost to it");
    }
    return;
  }
  if (store_) return;
  std::vector<prefix_index::stored_replica> replicas;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, e] : entries_) {
      if (const auto state = e.state.lock(); state && is_stored(e.cache)) {
        replicas.push_back({.name = name, .id = e.id, .model = state->model()});
      }
    }
  }
  if (replicas.empty()) return;
  store_ =
      std::make_unique<prefix_index::index_store>(index_, config_.state_dir / "index", std::move(replicas));
  const auto counters = store_->counters();
  if (counters.rebuilt > 0) spdlog::warn("the stored index was unusable and starts anew");
  if (counters.write_errors > 0) {
    spdlog::warn(
        "state_dir {}: the index cannot be kept there; is another weir using it, or is it not writable?",
        config_.state_dir.string());
  }
  if (counters.keys_loaded > 0) spdlog::info("{} index keys restored as hints", counters.keys_loaded);
}

void services::sweep() {
  const std::lock_guard lock(mutex_);
  for (auto it = entries_.begin(); it != entries_.end();) {
    auto& e = it->second;
    const auto state = e.state.lock();
    if (!state) {
      stop_listening(e);
      it = entries_.erase(it);
      continue;
    }
    if (e.source.status && !e.source.status->is_connected.load() && ++e.silent_sweeps == k_silent_sweeps) {
      spdlog::warn(
          "target '{}': no KV events from {}: it is not connected, and nothing is known of its cache",
          it->first, e.cache.events);
    }
    const auto own = e.own.lock();
    const bool refused = own ? own->is_refused() : e.source.status && e.source.status->is_refused.load();
    if (refused && state->model() == nullptr) {
      spdlog::warn("target '{}': its KV events do not fit; its cache is predicted from dispatches",
                   it->first);
      state->use_simulation();
    }
    ++it;
  }
}

}  // namespace weir::gateway::route
