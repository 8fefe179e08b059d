#include "engine/monitor/recorder.hpp"

#include <catch2/catch.hpp>
#include <numeric>

using namespace weir::engine;
using namespace weir::engine::monitor;

namespace {

constexpr std::chrono::milliseconds operator""_ms(unsigned long long count) {
  return std::chrono::milliseconds(count);
}

runner::batch batch_of(const std::vector<std::int32_t>& counts) {
  runner::batch out;
  out.reset(1);
  const std::int32_t page = 0;
  for (const std::int32_t count : counts) {
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(count), 1);
    out.append(tokens, 0, 0, {&page, 1});
  }
  return out;
}

const phase_activity& of(const engine_activity& all, step_phase phase) {
  return all.phases[static_cast<std::size_t>(phase)];
}

}  // namespace

TEST_CASE("a histogram counts what is at most each bound") {
  static constexpr std::array k_bounds{0.25, 1.0};
  histogram h(k_bounds);
  for (const double s : {0.125, 0.25, 0.5, 1.0, 2.0, 4.0}) h.observe(s);
  CHECK(std::vector(h.counts().begin(), h.counts().end()) == std::vector<std::uint64_t>{2, 2, 2});
  CHECK(h.count() == 6);
  CHECK(h.sum_s() == 7.875);
}

TEST_CASE("a step's phase is what its sequences compute") {
  CHECK(phase_of(batch_of({1, 1}).sequences) == step_phase::decode);
  CHECK(phase_of(batch_of({7}).sequences) == step_phase::prefill);
  CHECK(phase_of(batch_of({1, 64}).sequences) == step_phase::mixed);
}

TEST_CASE("latencies run from arrival, gaps between tokens, each sequence by itself") {
  recorder under_test(nullptr);
  const clock::time_point at{};
  under_test.arrived(1, at);
  under_test.arrived(2, at + 10_ms);
  CHECK(under_test.any_queued());
  under_test.running(std::vector<sequence_id>{1}, at + 20_ms);
  under_test.running(std::vector<sequence_id>{1}, at + 900_ms);  // again: it does not queue twice
  CHECK(under_test.any_queued());
  under_test.token(1, at + 50_ms);
  under_test.token(1, at + 80_ms);
  under_test.running(std::vector<sequence_id>{1, 2, 77}, at + 110_ms);
  CHECK_FALSE(under_test.any_queued());
  under_test.token(2, at + 140_ms);
  under_test.token(1, at + 180_ms);
  under_test.ended(1, finish_reason::length, at + 180_ms);
  under_test.ended(2, finish_reason::cancelled, at + 190_ms);
  under_test.arrived(3, at);
  under_test.ended(3, finish_reason::failed, at + 200_ms);
  CHECK_FALSE(under_test.any_queued());
  under_test.ended(3, finish_reason::failed, at + 200_ms);  // known no more

  const engine_activity got = under_test.read();
  CHECK(got.queue_s.count() == 2);
  CHECK(got.queue_s.sum_s() == Approx(0.02 + 0.1));
  CHECK(got.first_token_s.count() == 2);
  CHECK(got.first_token_s.sum_s() == Approx(0.05 + 0.13));
  CHECK(got.token_gap_s.count() == 2);
  CHECK(got.token_gap_s.sum_s() == Approx(0.03 + 0.1));
  CHECK(got.request_s.count() == 1);  // of whole answers
  CHECK(got.request_s.sum_s() == Approx(0.18));
  CHECK(got.ended == std::array<std::uint64_t, 4>{0, 1, 1, 1});
}

TEST_CASE("steps add up by phase") {
  recorder under_test(nullptr);
  weir::kernels::op_times ops;
  ops.ns[2] = 7;
  ops.calls[2] = 1;
  ops.experts_read = 5;
  under_test.step(batch_of({1, 1, 1}), 0.5, ops);
  under_test.step(batch_of({1}), 0.25, ops);
  under_test.step(batch_of({40}), 2, {});
  const engine_activity got = under_test.read();
  const auto& decode = of(got, step_phase::decode);
  CHECK(decode.step_s.count() == 2);
  CHECK(decode.step_s.sum_s() == 0.75);
  CHECK(decode.tokens == 4);
  CHECK(decode.ops.ns[2] == 14);
  CHECK(decode.ops.calls[2] == 2);
  CHECK(decode.ops.experts_read == 10);
  CHECK(of(got, step_phase::prefill).tokens == 40);
  CHECK(of(got, step_phase::prefill).ops.total_ns() == 0);
  CHECK(of(got, step_phase::mixed).step_s.count() == 0);
}

TEST_CASE("experts' tokens are counted for ever, the imbalance is of late") {
  constexpr std::int32_t k_experts = 4;
  expert_load load({false, true, true}, k_experts);
  CHECK(load.read().size() == 2);
  CHECK(load.read()[0].busiest == -1);
  for (int i = 0; i < 100; ++i) load.note(1, std::vector<std::int32_t>{0, 1, 0, 3});
  auto got = load.read();
  CHECK(got[0].layer == 1);
  CHECK(got[0].tokens == std::vector<std::uint64_t>{200, 100, 0, 100});
  CHECK(got[0].busiest == 0);
  CHECK(got[0].imbalance == 2.0);  // 200 over 400 / 4
  CHECK(got[1].layer == 2);
  CHECK(got[1].recent_tokens == 0);
  CHECK(got[1].imbalance == 0);

  for (int i = 0; i < 5000; ++i) load.note(1, std::vector<std::int32_t>{2});
  got = load.read();
  CHECK(got[0].tokens[2] == 5000);
  CHECK(got[0].busiest == 2);
  CHECK(got[0].imbalance > 3.9);
  CHECK(got[0].recent_tokens < k_recent_tokens * k_experts);
}
