// The one pool and the prefix cache through the engine's boundary, with the bundled model.
#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include "tests/engine/support.hpp"

using namespace weir::engine;
using namespace weir::tests;

TEST_CASE("a conversation's next turn starts where the last prompt ended, for its own scope", "[engine]") {
  for (const backend_kind backend : {backend_kind::reference, backend_kind::cpu}) {
    engine_config config;
    config.backend = backend;
    config.prefix_cache.unit_tokens = 16;  // the boundary lies within a page, which is copied
    const auto cached = open_engine(config);
    config.prefix_cache.enabled = false;
    const auto plain = open_engine(config);
    const auto ask = [](engine& which, const std::vector<std::int32_t>& prompt, const std::string& scope) {
      generate_request request = request_of(prompt, 12);
      request.scope = scope;
      request.sampling.logit_bias = {{2050, -100.0F}};
      auto sink = std::make_shared<collector>();
      REQUIRE(which.submit(std::move(request), sink));
      CHECK(sink->wait() == finish_reason::length);
      return sink;
    };
    std::vector<std::int32_t> prompt;
    std::int32_t expected = 0;
    for (int turn = 0; turn < 5; ++turn) {
      for (int i = 0; i < 45; ++i) prompt.push_back(300 + turn * 50 + i);
      const auto answer = ask(*cached, prompt, "a");
      CHECK(answer->cached() == expected);
      const auto same = ask(*plain, prompt, "a");
      CHECK(same->cached() == 0);
      CHECK(answer->tokens() == same->tokens());
      CHECK(ask(*cached, prompt, "b")->cached() == expected);
      expected = static_cast<std::int32_t>(prompt.size()) / 16 * 16;
      const auto said = answer->tokens();
      prompt.insert(prompt.end(), said.begin(), said.end());
    }
    const engine_stats stats = cached->stats();
    CHECK(stats.cached_prompt_end > 0);
    CHECK(stats.checkpoints_stored == 10);
    CHECK(stats.preemptions == 0);
    CHECK(stats.prompt_tokens + stats.cached_prompt_end == 2 * (45 + 102 + 159 + 216 + 273));
    check_idle(*cached);
  }
}

TEST_CASE("a model that does not fit is refused with the sum, before loading", "[engine]") {
  engine_config config;
  config.model_dir = k_model;
  config.memory_bytes = 264 << 20;  // less than pool, weights and activations
  const auto refused = engine::open(config);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::bad_request);
  CHECK(refused.error().detail.find("weights 7") != std::string::npos);
  CHECK(refused.error().detail.find("of 276824064") != std::string::npos);
  config.memory_bytes = 512 << 20;
  CHECK(engine::open(config));
}

TEST_CASE("a listener to the cache's events knows what it holds", "[engine]") {
  // What the events leave; touched by the worker until the engine stopped.
  std::set<std::uint64_t> pages;
  std::set<std::uint64_t> checkpoints;
  bool chained = true;
  engine_config config;
  config.kv_bytes = 9 * k_slab_bytes;
  config.prefix_cache.spacing_tokens = 64;
  config.on_cache_events = [&](const std::vector<cache::cache_event>& events) {
    using event = cache::cache_event;
    for (const event& e : events) {
      std::set<std::uint64_t>& of = e.of == event::group::mla_pages ? pages : checkpoints;
      const bool stored = e.what == event::kind::stored;
      chained = chained && (stored ? of.insert(e.hash).second : of.erase(e.hash) == 1);
      if (stored) {
        chained = chained && e.tokens.size() == 64 && e.scope == "s";
        chained = chained && (e.position == 64 || pages.contains(e.parent_hash));
        chained = chained && pages.contains(e.hash);  // a checkpoint comes after its pages
      }
    }
  };
  const auto under_test = open_engine(config);
  for (std::int32_t i = 0; i < 12; ++i) {
    auto sink = std::make_shared<collector>();
    generate_request request = request_of(std::vector<std::int32_t>(150, 300 + i), 2);
    request.scope = "s";
    REQUIRE(under_test->submit(std::move(request), sink));
    sink->wait();
  }
  under_test->stop();
  const engine_stats stats = under_test->stats();
  CHECK(stats.evictions > 0);
  CHECK(chained);
  CHECK(checkpoints.size() == static_cast<std::size_t>(stats.checkpoints));
  CHECK(pages.size() == static_cast<std::size_t>(stats.kv_pages_cached));  // of 64 tokens, as a page
}

TEST_CASE("sequences that lose their memory say the same", "[engine]") {
  engine_config config;
  config.sequences_max = 6;
  config.step_tokens_max = 64;
  const auto roomy = open_engine(config);
  config.kv_bytes = 9 * k_slab_bytes;
  const auto tight = open_engine(config);
  const auto run = [](engine& which) {
    std::vector<std::shared_ptr<collector>> sinks;
    for (std::int32_t i = 0; i < 6; ++i) {
      generate_request request = request_of({2051, 279, 2065 + i}, 250);
      request.sampling.temperature = 1.0F;
      request.sampling.presence_penalty = 1.0F;
      request.sampling.seed = static_cast<std::uint64_t>(i);
      request.sampling.logit_bias = {{2050, -100.0F}};
      request.scope = i % 2 == 0 ? "even" : "odd";
      sinks.push_back(std::make_shared<collector>());
      REQUIRE(which.submit(std::move(request), sinks.back()));
    }
    std::vector<std::vector<std::int32_t>> out;
    for (const auto& sink : sinks) {
      CHECK(sink->wait() == finish_reason::length);
      out.push_back(sink->tokens());
    }
    return out;
  };
  CHECK(run(*tight) == run(*roomy));
  CHECK(tight->stats().preemptions > 0);
  CHECK(tight->stats().recomputed_tokens > 0);
  CHECK(tight->stats().prompt_tokens == 18);
  CHECK(roomy->stats().preemptions == 0);
  check_idle(*tight);
}

TEST_CASE("what it did is told by phase, operation, expert and latency, and memory to the byte", "[engine]") {
  engine_config config;
  config.kv_bytes = 40 * k_slab_bytes + 12'345;
  config.sequences_max = 4;
  config.step_tokens_max = 64;
  const auto under_test = open_engine(config);
  std::vector<std::shared_ptr<collector>> sinks;
  for (std::int32_t i = 0; i < 9; ++i) {
    generate_request request = request_of(std::vector<std::int32_t>(100 + i, 300 + i % 3), 20);
    request.scope = "s";
    request.sampling.logit_bias = {{2050, -100.0F}};
    sinks.push_back(std::make_shared<collector>());
    REQUIRE(under_test->submit(std::move(request), sinks.back()));
  }
  const engine_stats during = under_test->stats();
  check_accounts(during);
  for (const auto& sink : sinks) {
    CHECK(under_test->activity().queue_s.count() <= 9);  // read while the worker writes
    CHECK(sink->wait() == finish_reason::length);
  }
  under_test->stop();
  const engine_stats stats = under_test->stats();
  check_accounts(stats);
  CHECK(stats.kv_bytes == config.kv_bytes);
  CHECK(stats.kv_pages_total * stats.page_bytes == 40 * k_slab_bytes);

  const monitor::engine_activity got = under_test->activity();
  std::uint64_t steps = 0, computed = 0, embeds = 0;
  for (const auto& phase : got.phases) {
    steps += phase.step_s.count();
    computed += phase.tokens;
    embeds += static_cast<std::uint64_t>(phase.ops.calls[static_cast<std::size_t>(weir::kernels::op::embed)]);
    CHECK(static_cast<double>(phase.ops.total_ns()) <= phase.step_s.sum_s() * 1e9);
  }
  CHECK(steps == stats.steps);
  CHECK(embeds == steps);
  // All but the last token of each answer is an input of a step.
  CHECK(computed == stats.prompt_tokens + stats.recomputed_tokens + stats.generated_tokens - 9);
  CHECK(got.queue_s.count() == 9);
  CHECK(got.first_token_s.count() == 9);
  CHECK(got.token_gap_s.count() == 9 * 19);
  CHECK(got.request_s.count() == 9);
  CHECK(got.ended[static_cast<std::size_t>(finish_reason::length)] == 9);
  REQUIRE(!got.experts.empty());
  for (const auto& layer : got.experts) {
    const auto sent = std::accumulate(layer.tokens.begin(), layer.tokens.end(), std::uint64_t{0});
    CHECK(sent % computed == 0);  // each token goes to as many experts
    CHECK(sent > 0);
    CHECK(layer.imbalance >= 1);
    CHECK(layer.recent_tokens <= sent);
  }
}
