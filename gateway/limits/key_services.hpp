// Keys, what they use and what they spent: what outlives reloads. Any thread unless said otherwise.
#pragma once

#include <expected>
#include <memory>
#include <string>

#include "gateway/auth/key_ring.hpp"
#include "gateway/ledger/ledger.hpp"
#include "gateway/limits/account.hpp"
#include "gateway/limits/key_writer.hpp"
#include "gateway/limits/rate_checkpoint.hpp"
#include "gateway/observe/traffic_meter.hpp"

namespace weir::gateway::observe {
class metrics;
}
namespace weir::gateway::shared {
class hub;
}

namespace weir::gateway::limits {

inline constexpr std::int64_t k_traffic_every_s = 5;

// What is wrong with the secrets of shared limits, in one sentence; empty: nothing.
std::string check_secrets(const config::redis_config& config);

struct key_services {
  key_services();
  ~key_services();

  account_table accounts;
  auth::key_ring ring{accounts};
  std::unique_ptr<ledger::ledger> money;  // null: no ledger_dir, so neither budgets nor keys made at run time
  std::unique_ptr<key_writer> writer;     // as money
  std::unique_ptr<shared::hub> shared;    // null: limits are this gateway's alone; stopped before the ledger

  // Opens the ledger where there is a folder for it, and the keys in it. Blocks; before traffic.
  std::expected<void, std::string> open(const config::auth_config& config);
  // Shares limits with other gateways where a store for them is configured. Behind open().
  std::expected<void, std::string> share(const config::redis_config& config, observe::metrics& metrics);

  // Gives back what was leased. Behind the last request, before the ledger ends.
  void stop_sharing();

  rate_checkpoint rates{accounts};
  observe::traffic_meter traffic;  // goes to the ledger; without one, nowhere

  // What was counted since the last time, to the ledger. Any thread.
  void write_traffic();
  // The same, at most every k_traffic_every_s. The controlling thread only.
  void tick_traffic();

  // Ends what is under way, then closes the ledger.
  void close();

 private:
  std::int64_t traffic_written_s_ = 0;
};

}  // namespace weir::gateway::limits
