#include "engine/scheduler/prompt_pace.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>

namespace {

using weir::engine::scheduler::prompt_pace;

// A machine whose step takes this long: decode reads all weights once, a prompt's token adds work.
struct machine {
  double decode_s;
  double token_s;

  double step(std::int32_t prompt) const { return decode_s + token_s * prompt; }
};

}  // namespace

TEST_CASE("prompts take what decode can spare, found within a few steps", "[pace]") {
  for (const machine on : {machine{0.080, 0.010}, machine{0.010, 0.0001}, machine{0.005, 1e-7}}) {
    prompt_pace pace(1.5);
    std::int32_t given = 0;
    double longest = 0;
    std::int64_t tokens = 0;
    for (int step = 0; step < 400; ++step) {
      given = pace.budget();
      REQUIRE(given >= 0);
      pace.note(8, given, on.step(given));
      if (step > 20) longest = std::max(longest, on.step(given));
      if (step > 20) tokens += given;
    }
    CHECK(longest <= 1.5 * on.decode_s * 1.0001);
    // No less than what fits, but for one step in 32.
    CHECK(static_cast<double>(tokens) >= 379 * (0.5 * on.decode_s / on.token_s - 1) * 30 / 33);
  }
}

TEST_CASE("one token goes on where not even that fits, so that no prompt starves", "[pace]") {
  prompt_pace pace(1.5);
  const machine slow{0.001, 1.0};
  int none = 0;
  for (int step = 0; step < 330; ++step) {
    const std::int32_t given = pace.budget();
    if (step > 30) CHECK(given <= 1);
    none += given == 0 ? 1 : 0;
    pace.note(1, given, slow.step(given));
  }
  CHECK(none <= 12);
}

TEST_CASE("a decode that becomes slower or faster is noticed", "[pace]") {
  prompt_pace pace(2.0);
  machine on{0.010, 0.001};
  for (const double decode_s : {0.010, 0.100, 0.005}) {
    on.decode_s = decode_s;
    for (int step = 0; step < 600; ++step) {
      const std::int32_t given = pace.budget();
      pace.note(4, given, on.step(given));
    }
    CHECK(std::max(pace.budget(), 1) <= 1.3 * decode_s / on.token_s + 1);
    const std::int32_t next =
        pace.budget() == 0 ? (pace.note(4, 0, on.step(0)), pace.budget()) : pace.budget();
    CHECK(next >= 0.7 * decode_s / on.token_s - 1);
  }
}

TEST_CASE("without a stretch there is no limit, and prompts alone teach nothing", "[pace]") {
  prompt_pace off(0);
  off.note(3, 5, 1.0);
  CHECK(off.budget() == std::numeric_limits<std::int32_t>::max());
  prompt_pace pace(1.5);
  pace.note(0, 512, 10.0);
  CHECK(pace.budget() == 0);  // the first step with decodes shows what they take
  pace.note(1, 0, 0.0);
  CHECK(pace.budget() == 0);
}
