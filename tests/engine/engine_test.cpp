// The engine through its public boundary, with the bundled model.
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/eval/golden.hpp"
#include "engine/model/mapped_file.hpp"
#include "tests/engine/support.hpp"
#include "tests/support/temp_dir.hpp"

namespace {

using namespace weir::engine;
using namespace weir::tests;

// Long enough to be still running when the test acts; the end-of-turn token is biased away.
generate_request long_request() {
  generate_request request = request_of({2051, 279, 2065}, 8000);
  request.sampling.logit_bias = {{2050, -100.0F}};
  return request;
}

std::vector<eval::golden_case> goldens() {
  const auto config = model::load_model_config(k_model);
  REQUIRE(config);
  const auto cases = eval::read_golden(k_model / "golden.json", *config);
  REQUIRE(cases);
  REQUIRE(cases->size() > 4);
  return *cases;
}

}  // namespace

TEST_CASE("the model is described", "[engine]") {
  const auto under_test = open_engine();
  const model_info& info = under_test->info();
  CHECK(info.architecture == "KimiLinearForCausalLM");
  CHECK(info.vocab_size == 2304);
  CHECK(info.context_tokens == 8192);
  CHECK(info.eos_token == 2050);
  CHECK(info.weight_bytes > 7'600'000);
  CHECK(info.parameter_count > 3'800'000);
  check_idle(*under_test);
}

TEST_CASE("a model whose logits are not numbers fails its requests and says so", "[engine]") {
  const weir::testing::temp_dir dir;
  for (const char* name : {"config.json", "generation_config.json"})
    std::filesystem::copy_file(k_model / name, dir.path() / name);
  const auto text = model::read_file(k_model / "model.safetensors", std::size_t{1} << 30);
  REQUIRE(text);
  std::string broken = *text;
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, broken.data(), sizeof header_bytes);
  constexpr std::string_view key = R"("data_offsets":[)";
  const std::size_t entry = broken.find(key, broken.find(R"("model.norm.weight")"));
  REQUIRE(entry < header_bytes);
  const std::size_t at = 8 + header_bytes + std::stoul(broken.substr(entry + key.size(), 20));
  broken.replace(at, 2, "\xff\x7f");  // NaN in bf16
  std::ofstream(dir.path() / "model.safetensors", std::ios::binary) << broken;

  std::string fault;
  engine_config config;
  config.model_dir = dir.path();
  config.on_fault = [&fault](const std::string& what) { fault = what; };
  auto under_test = engine::open(config);
  REQUIRE(under_test);
  const auto sink = std::make_shared<collector>();
  REQUIRE((*under_test)->submit(request_of({2051, 279, 2065}, 5), sink));
  CHECK(sink->wait() == finish_reason::failed);
  CHECK(sink->tokens().empty());
  (*under_test)->stop();
  CHECK(fault.find("not finite") != std::string::npos);
}

TEST_CASE("golden continuations come out, all requests at once, on both backends", "[engine]") {
  for (const backend_kind backend : {backend_kind::reference, backend_kind::cpu}) {
    engine_config config;
    config.backend = backend;
    config.sequences_max = 4;  // fewer than requests, so that some wait
    config.step_tokens_max = 24;
    config.page_tokens = 16;
    config.compute_threads = 2;
    const auto under_test = open_engine(config);
    const auto cases = goldens();
    std::vector<std::shared_ptr<collector>> sinks;
    std::uint64_t prompt_tokens = 0;
    for (const auto& golden : cases) {
      sinks.push_back(std::make_shared<collector>());
      prompt_tokens += golden.prompt.size();
      const auto max_new = static_cast<std::int32_t>(golden.greedy.size());
      REQUIRE(under_test->submit(request_of(golden.prompt, max_new), sinks.back()));
    }
    std::uint64_t generated = 0;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const finish_reason reason = sinks[i]->wait();
      std::vector<std::int32_t> expected = cases[i].greedy;
      const bool stops = expected.back() == under_test->info().eos_token;
      CHECK(reason == (stops ? finish_reason::stop : finish_reason::length));
      generated += expected.size();
      if (stops) expected.pop_back();
      CHECK(sinks[i]->tokens() == expected);
    }
    const engine_stats stats = under_test->stats();
    CHECK(stats.prompt_tokens == prompt_tokens);
    CHECK(stats.generated_tokens == generated);
    CHECK(stats.waiting == 0);
    check_idle(*under_test);
  }
}

TEST_CASE("requests that the model cannot take are refused before any work", "[engine]") {
  const auto under_test = open_engine();
  struct row {
    const char* name;
    errc code;
    void (*change)(generate_request&);
  };
  const row rows[] = {
      {"empty prompt", errc::bad_request, [](generate_request& r) { r.prompt.clear(); }},
      {"negative id", errc::bad_request, [](generate_request& r) { r.prompt[1] = -1; }},
      {"id past the vocabulary", errc::bad_request, [](generate_request& r) { r.prompt[0] = 2304; }},
      {"no new tokens", errc::bad_request, [](generate_request& r) { r.max_new_tokens = 0; }},
      {"most negative", errc::bad_request, [](generate_request& r) { r.max_new_tokens = INT32_MIN; }},
      {"too many new tokens", errc::context_length, [](generate_request& r) { r.max_new_tokens = 8190; }},
      {"as many as can be asked", errc::context_length,
       [](generate_request& r) { r.max_new_tokens = INT32_MAX; }},
      {"prompt fills the context", errc::context_length,
       [](generate_request& r) { r.prompt.assign(8192, 1); }},
      {"stop token outside", errc::bad_request, [](generate_request& r) { r.stop_tokens = {2304}; }},
      {"too many stop tokens", errc::bad_request, [](generate_request& r) { r.stop_tokens.assign(65, 1); }},
      {"scope", errc::bad_request, [](generate_request& r) { r.scope.assign(257, 's'); }},
      {"checkpoint hints", errc::bad_request, [](generate_request& r) { r.checkpoint_at.assign(65, 1); }},
      {"sampling", errc::bad_request, [](generate_request& r) { r.sampling.temperature = 3.0F; }},
  };
  for (const row& r : rows) {
    INFO(r.name);
    generate_request request = request_of({1, 2, 3}, 4);
    r.change(request);
    auto sink = std::make_shared<collector>();
    const auto submitted = under_test->submit(std::move(request), sink);
    REQUIRE_FALSE(submitted);
    CHECK(submitted.error().code == r.code);
    CHECK_FALSE(submitted.error().detail.empty());
    CHECK(sink->finished() == 0);
  }
  auto sink = std::make_shared<collector>();
  REQUIRE(under_test->submit(request_of({1, 2, 3}, 8189), sink));
}

TEST_CASE("stop tokens, length, log-probabilities and seeds", "[engine]") {
  const auto under_test = open_engine();
  const auto golden = goldens()[0];
  auto sink = std::make_shared<collector>();
  generate_request request = request_of(golden.prompt, 100);
  request.stop_tokens = {golden.greedy[2]};
  request.sampling.top_logprobs = 2;
  REQUIRE(under_test->submit(request, sink));
  CHECK(sink->wait() == finish_reason::stop);
  CHECK(sink->tokens() == std::vector<std::int32_t>(golden.greedy.begin(), golden.greedy.begin() + 2));
  REQUIRE(sink->events()[0].top.size() == 2);
  CHECK(sink->events()[0].top[0].token == golden.greedy[0]);
  CHECK(sink->events()[0].top[0].logprob == sink->events()[0].logprob);
  CHECK(sink->events()[0].top[1].logprob < sink->events()[0].logprob);

  std::vector<std::vector<std::int32_t>> outputs;
  for (const std::uint64_t seed : {5, 5, 6}) {
    auto sampled = std::make_shared<collector>();
    generate_request hot = request_of(golden.prompt, 24);
    hot.sampling.temperature = 2.0F;
    hot.sampling.logit_bias = {{2050, -100.0F}};
    hot.sampling.seed = seed;
    REQUIRE(under_test->submit(hot, sampled));
    CHECK(sampled->wait() == finish_reason::length);
    CHECK(sampled->events().size() == 24);
    outputs.push_back(sampled->tokens());
  }
  CHECK(outputs[0] == outputs[1]);
  CHECK(outputs[0] != outputs[2]);
}

TEST_CASE("cancel ends a running and a waiting request once", "[engine]") {
  engine_config config;
  config.sequences_max = 1;
  const auto under_test = open_engine(config);
  auto running = std::make_shared<collector>();
  auto waiting = std::make_shared<collector>();
  const auto first = under_test->submit(long_request(), running);
  const auto second = under_test->submit(long_request(), waiting);
  REQUIRE(first);
  REQUIRE(second);
  running->wait_first();
  CHECK(under_test->stats().kv_pages_used > 0);
  under_test->cancel(*second);
  under_test->cancel(*second);
  CHECK(waiting->wait() == finish_reason::cancelled);
  under_test->cancel(*first);
  CHECK(running->wait() == finish_reason::cancelled);
  under_test->cancel(*first);
  under_test->cancel(999999);
  under_test->stop();
  CHECK(waiting->events().empty());
  CHECK(running->finished() == 1);
  CHECK(running->after_finish() == 0);
  CHECK(waiting->finished() == 1);
  check_idle(*under_test);
}

TEST_CASE("a full queue refuses, and takes again when there is room", "[engine]") {
  engine_config config;
  config.sequences_max = 1;
  config.queue_max = 1;
  const auto under_test = open_engine(config);
  auto running = std::make_shared<collector>();
  auto waiting = std::make_shared<collector>();
  const auto first = under_test->submit(long_request(), running);
  REQUIRE(first);
  REQUIRE(under_test->submit(long_request(), waiting));
  const auto third = under_test->submit(long_request(), std::make_shared<collector>());
  REQUIRE_FALSE(third);
  CHECK(third.error().code == errc::queue_full);
  under_test->cancel(*first);
  CHECK(running->wait() == finish_reason::cancelled);
  CHECK(under_test->submit(long_request(), std::make_shared<collector>()));
}

TEST_CASE("stop finishes everything once and refuses what comes later", "[engine]") {
  const auto under_test = open_engine();
  std::vector<std::shared_ptr<collector>> sinks;
  for (int i = 0; i < 100; ++i) {
    sinks.push_back(std::make_shared<collector>());
    REQUIRE(under_test->submit(long_request(), sinks.back()));
  }
  sinks[0]->wait_first();
  std::thread other([&under_test] { under_test->stop(); });
  under_test->stop();
  other.join();
  for (const auto& sink : sinks) {
    CHECK(sink->finished() == 1);
    CHECK(sink->wait() == finish_reason::cancelled);
  }
  const auto late = under_test->submit(long_request(), std::make_shared<collector>());
  REQUIRE_FALSE(late);
  CHECK(late.error().code == errc::stopped);
  check_idle(*under_test);
  under_test->stop();
}

TEST_CASE("many threads submit and cancel; every accepted request finishes once", "[engine]") {
  engine_config config;
  config.sequences_max = 5;
  config.queue_max = 6;
  config.kv_bytes = 8 * k_slab_bytes;  // memory, not the number of sequences, is what runs out
  config.compute_threads = 2;
  const auto under_test = open_engine(config);
  std::atomic<int> refused{0};
  std::vector<std::shared_ptr<collector>> accepted[4];
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 40; ++i) {
        auto sink = std::make_shared<collector>();
        generate_request request =
            request_of({2051, 279, 2065}, static_cast<std::int32_t>(1 + (t * 37 + i * 13) % 60));
        request.prompt.resize(3 + (i * 29 + t) % 300, 5);
        const auto id = under_test->submit(std::move(request), sink);
        if (!id) {
          ++refused;
          std::this_thread::yield();
          continue;
        }
        accepted[t].push_back(sink);
        if (i % 3 == 0) under_test->cancel(*id);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::size_t count = 0;
  for (const auto& sinks : accepted) {
    for (const auto& sink : sinks) CHECK(sink->wait() != finish_reason::failed);
    count += sinks.size();
  }
  under_test->stop();
  CHECK(count > 0);
  CHECK(count + static_cast<std::size_t>(refused) == 160);
  for (const auto& sinks : accepted) {
    for (const auto& sink : sinks) {
      CHECK(sink->finished() == 1);
      CHECK(sink->after_finish() == 0);
    }
  }
  check_idle(*under_test);
}

TEST_CASE("engine configuration is checked", "[engine]") {
  struct row {
    const char* name;
    errc code;
    void (*change)(engine_config&);
  };
  const row rows[] = {
      {"no directory", errc::io, [](engine_config& c) { c.model_dir = "/nonexistent"; }},
      {"threads", errc::bad_request, [](engine_config& c) { c.compute_threads = -1; }},
      {"sequences", errc::bad_request, [](engine_config& c) { c.sequences_max = 0; }},
      {"queue", errc::bad_request, [](engine_config& c) { c.queue_max = -1; }},
      {"kv bytes below a state and a page", errc::bad_request,
       [](engine_config& c) { c.kv_bytes = 2 * k_slab_bytes - 1; }},
      {"kv bytes absurd", errc::bad_request, [](engine_config& c) { c.kv_bytes = INT64_MAX; }},
      {"page tokens", errc::bad_request, [](engine_config& c) { c.page_tokens = 0; }},
      {"step below sequences", errc::bad_request, [](engine_config& c) { c.step_tokens_max = 63; }},
      {"no hash unit", errc::bad_request, [](engine_config& c) { c.prefix_cache.unit_tokens = 0; }},
      {"spacing between units", errc::bad_request,
       [](engine_config& c) { c.prefix_cache.spacing_tokens = 100; }},
      {"negative spacing", errc::bad_request, [](engine_config& c) { c.prefix_cache.spacing_tokens = -64; }},
      {"no alignment", errc::bad_request, [](engine_config& c) { c.prefix_cache.chunk_align_tokens = 0; }},
  };
  for (const row& r : rows) {
    INFO(r.name);
    engine_config config;
    config.model_dir = k_model;
    r.change(config);
    const auto opened = engine::open(config);
    REQUIRE_FALSE(opened);
    CHECK(opened.error().code == r.code);
  }
  engine_config small;
  small.kv_bytes = 3 * k_slab_bytes;
  CHECK(open_engine(small)->info().context_tokens == 2 * 5 * 64);  // a state, and two slabs of pages
}
