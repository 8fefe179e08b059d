#include "gateway/limits/key_services.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

namespace weir::gateway::limits {

namespace {

using policy::limits::to_usd;

void report(const ledger::recovery& found) {
  if (found.clock_behind_s > 0) {
    spdlog::warn(
        "ledger: the clock is {} s behind its last use; budgets go on in the later day until it catches up",
        found.clock_behind_s);
  }
  if (found.reservations_charged == 0) return;
  spdlog::warn(
      "ledger: {} reservations were open when the last run ended; charged as reserved, ${:.6f} in all",
      found.reservations_charged, to_usd(found.charged));
  for (const auto& account : found.accounts) {
    spdlog::warn("ledger: key {}: {} reservations, ${:.6f}", account.account, account.reservations,
                 to_usd(account.charged));
  }
}

}  // namespace

std::expected<void, std::string> key_services::open(const config::auth_config& config) {
  if (!config.ledger_dir.empty()) {
    auto opened = ledger::ledger::open({.folder = config.ledger_dir});
    if (!opened) return std::unexpected(opened.error());
    money = std::move(*opened);
    rates.open(config.ledger_dir);
    report(money->recovered());
    ring.set_made(money->keys(), money->tenants());
  }
  if (auto usable = ring.configure(config); !usable) return usable;
  if (money) writer = std::make_unique<key_writer>(ring, *money);
  return {};
}

void key_services::close() {
  writer.reset();
  money.reset();
}

}  // namespace weir::gateway::limits
