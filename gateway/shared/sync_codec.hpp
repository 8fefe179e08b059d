// An order as the arguments of the sync script, and its reply as a grant. Pure; any thread.
#pragma once

#include <expected>
#include <string>
#include <vector>

#include "gateway/shared/key_lease.hpp"
#include "gateway/shared/store_link.hpp"

namespace weir::gateway::shared {

// Who speaks: the epoch and session that the last hello gave.
struct sync_context {
  std::string prefix;
  std::string gateway;
  std::string epoch;
  std::string session;
  std::int64_t lease_ms = 0;
  std::int64_t grace_ms = 0;  // as long as money that was granted in the epoch before may be spent
};

// How an order ended otherwise than with a grant.
struct sync_failure {
  enum class kind : std::uint8_t {
    stale,     // a newer session or epoch: say hello
    lost,      // the store lacks what it had confirmed: an epoch begins
    refused,   // the server says no: loading, read-only replica, out of memory, no permission
    nonsense,  // no reply of this script
  };
  kind why = kind::nonsense;
  std::string text;  // of refused
};

// EVALSHA with the digest, or EVAL with the text, and its keys and arguments.
std::vector<std::string> sync_command(const sync_context&, const key_order&, std::string_view verb,
                                      std::string_view script);

// Of a key that nobody has (no id has a space in it): makes the script do all that it ever does.
key_order probe_order();

std::expected<key_grant, sync_failure> read_grant(const store_value&);

}  // namespace weir::gateway::shared
