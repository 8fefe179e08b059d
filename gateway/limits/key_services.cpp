#include "gateway/limits/key_services.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <fstream>

#include "gateway/auth/private_file.hpp"
#include "gateway/config/redis_url.hpp"
#include "gateway/ledger/label_clock.hpp"
#include "gateway/observe/metrics.hpp"
#include "gateway/shared/hub.hpp"

namespace weir::gateway::limits {

namespace {

using policy::limits::to_usd;

constexpr std::size_t k_password_bytes_max = 4096;
constexpr std::string_view k_marked = "weir's ledger";

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

// What is configured, with its secrets read. The error names the setting.
std::expected<shared::hub_settings, std::string> shared_settings(const config::redis_config& config) {
  const auto url = config::parse_redis_url(config.url);
  if (!url) return std::unexpected("redis.url: " + url.error());
  shared::hub_settings out{.at = {url->host, url->port, url->tls, config.ca_file},
                           .user = url->user,
                           .database = url->database,
                           .prefix = config.prefix,
                           .timeout_ms = config.timeout_ms,
                           .lease_ms = config.lease_ms,
                           .refuse_when_down = config.rates_when_down == "refuse"};
  if (config.password_file.empty()) return out;
  auto password = auth::read_private_file(config.password_file, k_password_bytes_max);
  if (!password) return std::unexpected("redis.password_file: " + password.error());
  if (password->empty()) return std::unexpected("redis.password_file: is empty");
  out.password = std::move(*password);
  return out;
}

// A ledger's keys open under the secret that they were made with, which a digest beside them tells.
std::expected<void, std::string> check_mark(const config::auth_config& config, const auth::key_ring& ring,
                                            bool has_keys) {
  const auto digest = ring.digest_of(k_marked);
  if (!digest) return {};
  const auto wanted = auth::to_hex(*digest);
  const auto file = config.ledger_dir / "secret_mark";
  std::string found;
  std::ifstream(file) >> found;
  if (found == wanted) return {};
  if (!found.empty() && has_keys) {
    return std::unexpected(
        fmt::format("auth.secret_file ({}) holds another secret than the one with which the keys of the "
                    "ledger in {} were "
                    "made, so none of them would open: put the old one back",
                    config.secret_file.string(), config.ledger_dir.string()));
  }
  const auto fresh = std::filesystem::path(file).concat(".new");
  std::ofstream out(fresh, std::ios::trunc);
  out << wanted << '\n';
  out.close();
  std::error_code ignored;
  if (out) std::filesystem::rename(fresh, file, ignored);
  return {};
}

}  // namespace

std::string check_secrets(const config::redis_config& config) {
  if (config.url.empty()) return {};
  const auto usable = shared_settings(config);
  return usable ? std::string() : usable.error();
}

key_services::key_services() = default;

key_services::~key_services() = default;

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
  if (money) {
    if (auto same = check_mark(config, ring, !money->keys().empty()); !same) return same;
  }
  if (money) writer = std::make_unique<key_writer>(ring, *money);
  return {};
}

void key_services::write_traffic() {
  const auto rows = traffic.take();
  if (money && !rows.empty() && !money->add_traffic(rows)) traffic.give_back(rows);
}

void key_services::tick_traffic() {
  const auto now_s = ledger::system_boot_s();
  if (now_s - traffic_written_s_ < k_traffic_every_s) return;
  traffic_written_s_ = now_s;
  write_traffic();
}

void key_services::close() {
  write_traffic();
  writer.reset();
  money.reset();
}

std::expected<void, std::string> key_services::share(const config::redis_config& config,
                                                     observe::metrics& metrics) {
  if (config.url.empty()) return {};
  auto settings = shared_settings(config);
  if (!settings) return std::unexpected(std::move(settings.error()));
  if (money) settings->gateway = money->identity();
  shared = std::make_unique<shared::hub>(std::move(*settings), money.get(), metrics.shared());
  shared->start();
  return {};
}

void key_services::stop_sharing() {
  shared.reset();
}

}  // namespace weir::gateway::limits
