#include <fmt/format.h>

#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/gateway/ledger/crash_run.hpp"
#include "tests/gateway/ledger/support.hpp"

namespace weir::gateway::ledger {

namespace {

// A sanitized build runs slower and finds other faults: fewer deaths do.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int k_kills = 12, k_power_losses = 12, k_kills_in_open = 12;
#else
constexpr int k_kills = 200, k_power_losses = 200, k_kills_in_open = 50;
#endif
constexpr int k_lanes = 4;
constexpr std::size_t k_tiny_buffer_bytes = std::size_t{256} << 10;  // flushes and compactions all the time
constexpr std::size_t k_buffer_bytes = std::size_t{16} << 20;

void report(const char* mode, int cycles, const crash_tally& tally) {
  fmt::print(
      "{}: {} cycles, {} reservations issued, {} acknowledged, {} recovered beyond these, {} charged, "
      "{} killed while opening\n",
      mode, cycles, tally.issued, tally.acknowledged, tally.recovered_more, tally.charged,
      tally.killed_in_open);
}

struct lane_result {
  crash_tally tally;
  int cycles = 0;
  std::string wrong;  // empty: nothing
};

// One ledger's lives, one after the other.
void run_lane(crash_plan plan, std::uint32_t seed, int cycles, lane_result& out) {
  std::minstd_rand random(seed);
  const testing::temp_dir folder;
  crash_run run(folder.path() / "ledger");
  const bool kills_in_open = plan.while_opening;
  const auto deaths = [&] {
    return kills_in_open ? static_cast<int>(run.tally().killed_in_open) : out.cycles;
  };
  for (int i = 0; deaths() < cycles && i < 8 * cycles && out.wrong.empty(); ++i) {
    plan.seed = static_cast<std::uint32_t>(random());
    plan.write_buffer_bytes = random() % 3 == 0 ? k_buffer_bytes : k_tiny_buffer_bytes;
    plan.while_opening = kills_in_open && i % 6 != 1;  // else there is nothing to lose
    plan.kill_after_ms = static_cast<int>(plan.while_opening ? random() % 200 : 20 + random() % 151);
    out.wrong = run.cycle(plan);
    ++out.cycles;
  }
  if (!out.wrong.empty()) out.wrong += fmt::format(" (lane seed {}, cycle {})", seed, out.cycles);
  out.tally = run.tally();
}

// Lanes at once: a life is mostly waiting.
crash_tally run_cycles(const char* mode, int cycles, crash_plan plan) {
  const std::uint32_t seed = std::random_device{}();
  fmt::print("{}: seed {}\n", mode, seed);
  std::vector<lane_result> results(k_lanes);
  {
    std::vector<std::jthread> lanes;
    for (std::uint32_t i = 0; i < k_lanes; ++i) {
      const int share = (cycles + k_lanes - 1) / k_lanes;
      lanes.emplace_back(run_lane, plan, seed + i, share, std::ref(results[i]));
    }
  }
  crash_tally sum;
  int done_cycles = 0;
  for (const auto& one : results) {
    CHECK(one.wrong == "");
    sum.add(one.tally);
    done_cycles += one.cycles;
  }
  report(mode, done_cycles, sum);
  return sum;
}

}  // namespace

TEST_CASE("no kill -9 loses what was acknowledged") {
  const auto tally = run_cycles("kill", k_kills, {});
  CHECK(tally.acknowledged > k_kills);
  CHECK(tally.charged > 0);
}

TEST_CASE("no power loss loses what was acknowledged") {
  const auto tally = run_cycles("power loss", k_power_losses, {.power_loss = true});
  CHECK(tally.acknowledged > k_power_losses);
  CHECK(tally.charged > 0);
}

TEST_CASE("no kill while opening loses anything, of a new ledger or an old one") {
  const auto killed = run_cycles("kill while opening", k_kills_in_open, {.while_opening = true});
  CHECK(killed.killed_in_open >= k_kills_in_open);
  const auto lost_power =
      run_cycles("power loss while opening", k_kills_in_open, {.while_opening = true, .power_loss = true});
  CHECK(lost_power.killed_in_open >= k_kills_in_open);
}

}  // namespace weir::gateway::ledger
