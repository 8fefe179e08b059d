// What is known of an API key, wherever it was made (configuration file or admin API), and what its holder
// may do. The key itself is in none of this: only its digest is ever kept. Plain values; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "policy/limits/money.hpp"

namespace weir::gateway::auth {

using digest = std::array<unsigned char, 32>;  // HMAC-SHA-256 of the key under the server secret

using policy::limits::usd_nano;

enum class residency : std::uint8_t { any, local_only };  // local_only: no hosted target ever sees a request

// Who is shed first, and served last, when there is not enough for all.
enum class priority_class : std::uint8_t { batch, low, normal, high };

// Who shares cached prompts with this key.
enum class key_sharing : std::uint8_t { as_configured, tenant, key, site };

// 0 = no limit.
struct key_limits {
  std::int64_t requests_per_min = 0;
  std::int64_t tokens_per_min = 0;  // prompt and completion
  std::int64_t concurrent = 0;      // requests running at once
  usd_nano usd_per_day = 0;         // UTC days
  usd_nano usd_per_month = 0;       // UTC months

  bool has_budget() const noexcept { return usd_per_day > 0 || usd_per_month > 0; }
  friend bool operator==(const key_limits&, const key_limits&) = default;
};

struct key_terms {
  std::vector<std::string> models;  // empty = all
  key_limits limits;
  auth::residency residency = residency::any;
  priority_class priority = priority_class::normal;
  key_sharing sharing = key_sharing::as_configured;
  bool shadow = false;  // its requests may be copied to a shadow target

  friend bool operator==(const key_terms&, const key_terms&) = default;
};

struct key_record {
  std::string id;    // "key_" and 24 hex digits, never reused; of a key in the configuration file: its name
  std::string name;  // shown in logs and metrics instead of the key
  std::string tenant;
  auth::digest digest{};
  std::optional<auth::digest> previous_digest;  // before the last rotation
  std::int64_t previous_until_s = 0;            // Unix time until which it still opens
  std::int64_t created_s = 0;                   // Unix time
  bool revoked = false;                         // final
  key_terms terms;

  friend bool operator==(const key_record&, const key_record&) = default;
};

// What all keys of a tenant have in common.
struct tenant_record {
  std::string name;
  std::int64_t weight = 1;  // its part of what tenants of one priority class compete for

  friend bool operator==(const tenant_record&, const tenant_record&) = default;
};

}  // namespace weir::gateway::auth
