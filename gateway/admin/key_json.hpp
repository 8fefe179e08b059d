// Keys, tenants, spend and the ledger as the admin API writes them. Never a key or a digest. Pure; any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/auth/key_terms.hpp"
#include "gateway/ledger/types.hpp"
#include "policy/limits/gcra.hpp"

namespace weir::gateway::admin {

// Exact: 0, 1.5, 0.000000001.
std::string usd_text(auth::usd_nano amount);

// An object without its last brace, for more fields. `source`: "config" or "admin".
std::string open_key_json(const auth::key_record& key, std::string_view source, std::int64_t now_s);

// What a key uses right now.
struct key_usage {
  std::int64_t running = 0;
  std::optional<policy::limits::level> requests, tokens;  // nothing: no limit
  std::optional<ledger::spend> spend;                     // nothing: no ledger
};
std::string to_json(const key_usage& usage, const auth::key_limits& limits);

struct ledger_report {
  ledger::health_report health;
  ledger::ledger_counters counters;
  ledger::recovery recovered;
  std::vector<ledger::charged_reservation> charged;
};
std::string to_json(const ledger_report& report);

// "full_disk", "failed"; empty: well.
std::string_view health_word(const ledger::health_report& health) noexcept;

}  // namespace weir::gateway::admin
