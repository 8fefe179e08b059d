// The engine over ranks: what it says, when it loses one, and what it refuses.
#include <atomic>
#include <future>
#include <random>

#include "tests/engine/parallel/processes.hpp"
#include "tests/engine/support.hpp"

namespace {

using namespace weir::tests;
namespace engine = weir::engine;

engine::engine_config config_of(int rank, int size, std::uint16_t port) {
  engine::engine_config out;
  out.model_dir = k_model;
  out.backend = engine::backend_kind::reference;
  out.compute_threads = 1;
  out.ranks = {.rank = rank, .size = size, .master_port = port, .split = engine::split_kind::tensor};
  return out;
}

// No other test's: the process's own number is in it.
std::uint16_t port_of_this_test() {
  static std::uint32_t count = 0;
  return static_cast<std::uint16_t>(10'000 +
                                    (static_cast<std::uint32_t>(::getpid()) * 7 + count++ * 1031) % 50'000);
}

class answer final : public engine::event_sink {
 public:
  void on_started(std::int32_t cached) noexcept override { cached_ = cached; }
  void on_token(const engine::token_event& event) noexcept override {
    tokens_.push_back(event.token);
    ++count_;
  }
  void on_finished(engine::finish_reason reason) noexcept override { done_.set_value(reason); }

  engine::finish_reason wait() {
    auto future = done_.get_future();
    expect(future.wait_for(k_patience) == std::future_status::ready, "no answer");
    return future.get();
  }
  const std::vector<std::int32_t>& tokens() const { return tokens_; }
  std::int32_t cached() const { return cached_; }
  int count() const { return count_; }

 private:
  std::vector<std::int32_t> tokens_;
  std::atomic<int> count_ = 0;
  std::int32_t cached_ = 0;
  std::promise<engine::finish_reason> done_;
};

std::unique_ptr<engine::engine> opened(const engine::engine_config& config) {
  auto out = engine::engine::open(config);
  expect(out.has_value(), out ? "" : out.error().detail);
  return std::move(*out);
}

void follow(const engine::engine_config& config, const char* lost_because = nullptr) {
  const auto followed = engine::engine::follow(config);
  if (lost_because == nullptr) return expect(followed.has_value(), followed ? "" : followed.error().detail);
  expect(!followed && followed.error().code == engine::errc::lost, "followed to the end");
  expect(followed.error().detail.find(lost_because) != std::string::npos, followed.error().detail);
}

struct said {
  std::vector<std::vector<std::int32_t>> tokens;
  std::uint64_t preemptions = 0;
  std::int32_t cached = 0;
};

// Nine states' room for six sequences: a rank's state is of half the heads, in double.
engine::engine_config with_small_pool(engine::engine_config config) {
  config.kv_bytes = 9 * 2 * k_slab_bytes / config.ranks.size;
  config.page_tokens = 8;
  config.prefix_cache.unit_tokens = 8;
  config.sequences_max = 6;
  config.step_tokens_max = 48;
  return config;
}

// Bursts of prompts with common beginnings in a pool for a few of them.
said run_requests(const engine::engine_config& config) {
  const auto under_test = opened(config);
  std::mt19937_64 random(17);
  const auto vocab = static_cast<std::uint64_t>(under_test->info().vocab_size - 256);
  const auto more_tokens = [&](std::vector<std::int32_t>& to, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) to.push_back(static_cast<std::int32_t>(random() % vocab));
  };
  std::vector<std::int32_t> beginning;
  more_tokens(beginning, 30);
  said out;
  for (int burst = 0; burst < 2; ++burst) {
    std::vector<std::shared_ptr<answer>> answers;
    for (int i = 0; i < 6; ++i) {
      std::vector<std::int32_t> prompt(beginning.begin(),
                                       beginning.begin() + static_cast<std::ptrdiff_t>(random() % 31));
      more_tokens(prompt, 1 + random() % 20);
      engine::generate_request request =
          request_of(std::move(prompt), static_cast<std::int32_t>(60 + random() % 60));
      request.sampling.logit_bias = {{under_test->info().eos_token, -100.0F}};
      answers.push_back(std::make_shared<answer>());
      expect(under_test->submit(std::move(request), answers.back()).has_value(), "submit");
    }
    for (const auto& one : answers) {
      expect(one->wait() != engine::finish_reason::failed, "failed");
      out.tokens.push_back(one->tokens());
      out.cached += one->cached();
    }
  }
  out.preemptions = under_test->stats().preemptions;
  return out;
}

std::shared_ptr<answer> ask(engine::engine& of, std::int32_t new_tokens) {
  auto out = std::make_shared<answer>();
  engine::generate_request request = request_of({5, 6, 7, 8, 9}, new_tokens);
  request.sampling.logit_bias = {{of.info().eos_token, -100.0F}};
  expect(of.submit(std::move(request), out).has_value(), "submit");
  return out;
}

}  // namespace

TEST_CASE("an engine over ranks says what one does, whatever gives way and is reused", "[rank_engine]") {
  for (const auto split : {engine::split_kind::tensor, engine::split_kind::expert}) {
    const std::uint16_t port = port_of_this_test();
    rank_processes processes;
    const auto config = [&](int rank) {
      auto out = config_of(rank, 2, port);
      out.ranks.split = split;
      return out;
    };
    processes.start([&] {
      auto alone = config(0);
      alone.ranks = {};
      const said expected = run_requests(with_small_pool(alone));
      const said got = run_requests(with_small_pool(config(0)));
      expect(got.tokens == expected.tokens, "other tokens");
      expect(got.preemptions > 0 && got.cached > 0, std::to_string(got.preemptions) + " preemptions, " +
                                                        std::to_string(got.cached) + " tokens reused");
    });
    processes.start([&] { follow(with_small_pool(config(1))); });
    CHECK(processes.wait() == std::vector<int>{0, 0});
  }
}

namespace {

void expect_broken(engine::engine& under_test, const std::string& why) {
  expect(!under_test.serves() && under_test.fault() == why, under_test.fault());
  const auto refused = under_test.submit(request_of({1}, 1), std::make_shared<answer>());
  expect(!refused && refused.error().code == engine::errc::lost, "accepted");
  expect(refused.error().detail == "the engine " + why, refused.error().detail);
  expect(under_test.stats().running == 0 && under_test.stats().waiting == 0, "not all ended");
  under_test.stop();
}

}  // namespace

TEST_CASE("a rank lost amid an answer ends it, and the engine says why from then on", "[rank_engine]") {
  const std::uint16_t port = port_of_this_test();
  const std::string why = "lost rank 1 (its process ended)";
  const auto config = [port](int rank) {
    auto out = config_of(rank, 2, port);
    out.sequences_max = 1;  // the second request waits
    out.step_tokens_max = 64;
    return out;
  };
  signpost running_now;
  rank_processes processes;
  processes.start([&] {
    std::string told;
    auto settings = config(0);
    settings.on_fault = [&told](const std::string& what) { told = what; };
    const auto under_test = opened(settings);
    expect(under_test->serves() && under_test->fault().empty(), "broken from the start");
    const auto running = ask(*under_test, 8000);
    const auto waiting = ask(*under_test, 10);
    while (running->count() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    running_now.set();
    expect(running->wait() == engine::finish_reason::failed, "running");
    expect(waiting->wait() == engine::finish_reason::failed, "waiting");
    expect_broken(*under_test, why);
    expect(told == why, told);
  });
  processes.start([&] { follow(config(1)); });
  running_now.wait();
  processes.signal(1, SIGKILL);
  CHECK(processes.wait() == std::vector<int>{0, -SIGKILL});
}

TEST_CASE("an engine at rest notices that a rank is gone", "[rank_engine]") {
  const std::uint16_t port = port_of_this_test();
  signpost at_rest;
  rank_processes processes;
  processes.start([&] {
    const auto under_test = opened(config_of(0, 2, port));
    expect(ask(*under_test, 3)->wait() == engine::finish_reason::length, "an answer");
    at_rest.set();
    const auto until = std::chrono::steady_clock::now() + k_patience;
    while (under_test->serves() && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    expect_broken(*under_test, "lost rank 1 (its process ended)");
  });
  processes.start([&] { follow(config_of(1, 2, port)); });
  at_rest.wait();
  processes.signal(1, SIGKILL);
  CHECK(processes.wait() == std::vector<int>{0, -SIGKILL});
}

TEST_CASE("followers end with an error when rank 0 does", "[rank_engine]") {
  const std::uint16_t port = port_of_this_test();
  signpost ready;
  rank_processes processes;
  processes.start([&] {
    const auto under_test = opened(config_of(0, 2, port));
    ready.set();
    ::pause();
  });
  processes.start([&] { follow(config_of(1, 2, port), "lost rank 0 (its process ended)"); });
  ready.wait();
  processes.signal(0, SIGKILL);
  CHECK(processes.wait() == std::vector<int>{-SIGKILL, 0});
}

TEST_CASE("ranks of different settings do not begin", "[rank_engine]") {
  const std::uint16_t port = port_of_this_test();
  const auto refused = [](const auto& outcome) {
    expect(!outcome && outcome.error().code == engine::errc::bad_request, "begun");
    const std::string& why = outcome.error().detail;
    expect(why.find("rank 1 has another model or other settings than rank 0") != std::string::npos, why);
    expect(why.find("page_tokens") != std::string::npos, why);
  };
  rank_processes processes;
  processes.start([&] { refused(engine::engine::open(config_of(0, 2, port))); });
  processes.start([&] {
    auto other = config_of(1, 2, port);
    other.page_tokens = 32;
    refused(engine::engine::follow(other));
  });
  CHECK(processes.wait() == std::vector<int>{0, 0});
}

TEST_CASE("what ranks do not divide is refused before they meet", "[rank_engine]") {
  const auto refusal = [](int ranks, engine::split_kind split) {
    auto config = config_of(0, ranks, port_of_this_test());
    config.ranks.split = split;
    const auto outcome = engine::engine::check_before_load(config);
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == engine::errc::bad_request);
    const auto opened_so = engine::engine::open(config);
    REQUIRE_FALSE(opened_so);
    CHECK(opened_so.error().detail == outcome.error().detail);
    return outcome.error().detail;
  };
  CHECK(refusal(4, engine::split_kind::tensor) ==
        "linear_attn_config.num_heads is 6: 4 ranks do not divide it");
  CHECK(refusal(3, engine::split_kind::tensor) == "intermediate_size is 512: 3 ranks do not divide it");
  CHECK(refusal(65, engine::split_kind::tensor) ==
        "engine configuration: there may be from 1 to 64 ranks, counted from 0");
}
