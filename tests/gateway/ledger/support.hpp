// What the ledger's tests share: time by hand, callbacks that can be waited for, the disk's content.
#pragma once

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "gateway/ledger/ledger.hpp"
#include "gateway/ledger/store.hpp"
#include "tests/support/temp_dir.hpp"

namespace weir::gateway::ledger {

inline constexpr usd_nano k_dollar = policy::limits::k_usd;
inline constexpr std::int64_t k_noon_s = 1'796'040'000;  // 2026-11-30T12:00:00Z

struct hand_clock {
  std::atomic<std::int64_t> wall_s = k_noon_s;
  std::atomic<std::int64_t> boot_s = 1000;

  void run(std::int64_t seconds) {
    wall_s += seconds;
    boot_s += seconds;
  }
};

inline settings settings_for(const std::filesystem::path& folder, hand_clock& clock) {
  settings with;
  with.folder = folder;
  with.settle_linger_ms = 0;
  with.full_disk_retry_ms = 5;
  with.wall_s = [&clock] { return clock.wall_s.load(); };
  with.boot_s = [&clock] { return clock.boot_s.load(); };
  return with;
}

inline std::unique_ptr<ledger> open_good(settings with) {
  auto opened = ledger::open(std::move(with));
  INFO((opened ? "" : opened.error()));
  REQUIRE(opened);
  return std::move(*opened);
}

// A callback, and what it was told.
class outcome {
 public:
  done callback() {
    return [promise = promise_](std::expected<void, fault> told) { promise->set_value(told); };
  }
  std::expected<void, fault> wait() {
    auto future = promise_->get_future();
    REQUIRE(future.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
    return future.get();
  }

 private:
  std::shared_ptr<std::promise<std::expected<void, fault>>> promise_ =
      std::make_shared<std::promise<std::expected<void, fault>>>();
};

inline auth::key_limits budget(usd_nano day, usd_nano month = 0) {
  return {.usd_per_day = day, .usd_per_month = month};
}

// Reserves and waits until it is durable.
inline reservation_id reserve_durably(ledger& book, const std::string& account, usd_nano amount,
                                      const auth::key_limits& limits = {}) {
  outcome told;
  const auto id = book.reserve(account, limits, amount, "request", told.callback());
  REQUIRE(id);
  REQUIRE(told.wait());
  return *id;
}

inline void settle_durably(ledger& book, reservation_id id, usd_nano actual) {
  outcome told;
  book.settle(id, actual, told.callback());
  REQUIRE(told.wait());
}

// Read from the disk, nothing charged yet.
inline contents read_folder(const std::filesystem::path& folder) {
  contents out;
  const auto opened = store::open({.folder = folder, .write_buffer_bytes = std::size_t{1} << 20}, out);
  INFO((opened ? "" : opened.error().text));
  REQUIRE(opened);
  return out;
}

}  // namespace weir::gateway::ledger
