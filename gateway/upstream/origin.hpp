// Where an HTTP target is and how to reach it: address, TLS, credential, limits, and its counters. One per
// target and configuration; connections to it hold it. Immutable but for the counters; any thread.
#pragma once

#include <atomic>
#include <boost/asio/ssl/context.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <expected>
#include <memory>
#include <string>

#include "gateway/config/base_url.hpp"
#include "gateway/config/config.hpp"
#include "gateway/http/limits.hpp"
#include "gateway/observe/upstream_counters.hpp"
#include "gateway/upstream/outage_log.hpp"
#include "gateway/upstream/resolver.hpp"
#include "policy/failover/failure.hpp"
#include "policy/failover/freeze.hpp"

namespace weir::gateway::upstream {

// A key of ours. One that a target refused is out for a while; the others go on.
struct upstream_key {
  explicit upstream_key(std::string key) : text(std::move(key)) {}
  bool usable() const noexcept;
  void take_out() const noexcept;

  std::string text;  // never logged
  mutable std::atomic<std::int64_t> out_until_ns = 0;
};

struct origin {
  std::uint64_t id = 0;  // unique in the process, also over reloads
  std::string name;      // the target's
  config::http_target_config config;
  config::base_url url;
  std::deque<upstream_key> keys;  // none: none is sent
  http::http_settings settings;
  std::shared_ptr<boost::asio::ssl::context> tls;  // null: plain
  std::shared_ptr<const host_addresses> addresses;
  observe::upstream_counters counters;
  // Requests there: of all of the target's name, which a reload may have made anew.
  std::shared_ptr<std::atomic<std::int64_t>> in_flight;
  mutable std::atomic<std::uint32_t> turn = 0;      // connections opened, to take addresses in turn
  mutable std::atomic<std::uint32_t> key_turn = 0;  // requests, to take keys in turn
  mutable policy::failover::freeze_watch freeze{{}};
  mutable outage_log unreachable;    // no connection
  mutable outage_log misconfigured;  // answers that say so

  // The next in turn of those that may be used, or of all that are out the one that is due first; null: none
  // is configured.
  const upstream_key* next_key() const noexcept;
  bool has_usable_key() const noexcept;  // or needs none
};

// Reads the key and the authorities. `before`: the target up to now, which may still have requests; null:
// there was none. The error is a sentence for the operator; no secret is in it.
std::expected<std::shared_ptr<const origin>, std::string> make_origin(const config::target_config& target,
                                                                      std::chrono::milliseconds write_idle,
                                                                      resolver& names,
                                                                      observe::upstream_counters counters,
                                                                      const origin* before);

// Whether make_origin would accept the target's key and authorities.
std::expected<void, std::string> check_credentials(const config::target_config& target);

}  // namespace weir::gateway::upstream
