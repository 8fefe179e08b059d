// Whole models through CUDA's kernels on the emulated device: golden values, and the engine as hosts see it.
#include <filesystem>

#include "engine/cuda/cuda_backend.hpp"
#include "engine/eval/eval.hpp"
#include "tests/cuda_emulator/cuda_runtime_api.h"
#include "tests/engine/support.hpp"

namespace {

using namespace weir;
using namespace weir::tests;
using engine::activation_format;
using engine::backend_kind;
namespace fs = std::filesystem;

const fs::path k_root = WEIR_SOURCE_DIR;

// What several prompts of unequal lengths become, all at once.
std::vector<std::vector<std::int32_t>> answers(backend_kind backend, activation_format activations) {
  engine::engine_config config;
  config.backend = backend;
  config.activations = activations;
  config.compute_threads = 1;
  config.kv_bytes = 64 * k_slab_bytes;
  const auto opened = open_engine(config);
  CHECK(opened->info().backend == backend);
  std::vector<std::shared_ptr<collector>> sinks;
  for (std::int32_t n = 1; n <= 4; ++n) {
    std::vector<std::int32_t> prompt;
    for (std::int32_t i = 0; i < 5 * n; ++i) prompt.push_back((37 * i * n + 11) % 500);
    sinks.push_back(std::make_shared<collector>());
    REQUIRE(opened->submit(request_of(std::move(prompt), 6), sinks.back()));
  }
  std::vector<std::vector<std::int32_t>> out;
  for (const auto& sink : sinks) {
    CHECK(sink->wait() != engine::finish_reason::failed);
    out.push_back(sink->tokens());
  }
  return out;
}

}  // namespace

TEST_CASE("checkpoints agree with their goldens on CUDA's kernels", "[cuda]") {
  engine::cuda::link_backend();
  struct row {
    const char* model;
    activation_format activations;
    double tolerance;
  };
  const row rows[] = {
      {"tests/data/kimi-linear-a", activation_format::float32, 1e-4},
      {"tests/data/kimi-k3-a", activation_format::float32, 5e-4},
      {"configs/models/weir-tiny", activation_format::narrow, 0.15},
  };
  for (const row& r : rows) {
    INFO(r.model);
    engine::eval::eval_options options;
    options.model_dir = k_root / r.model;
    options.cases = options.model_dir / "golden.json";
    options.backend = backend_kind::cuda;
    options.activations = r.activations;
    options.tolerance = r.tolerance;
    options.chunk_tokens = 48;
    options.page_tokens = 16;
#if defined(__SANITIZE_ADDRESS__)
    options.cases_max = 1;  // some twenty times slower
#endif
    const auto report = engine::eval::evaluate(options);
    REQUIRE(report);
    INFO("logits " << report->worst.logits << ", states " << report->worst.kda_state);
    CHECK(report->passed());
  }
}

TEST_CASE("the engine says the same on CUDA's kernels as on the CPU's, and replays its decode steps",
          "[cuda]") {
  engine::cuda::link_backend();
  const std::size_t before = cuda_emulator::graph_launches();
  CHECK(answers(backend_kind::cuda, activation_format::float32) ==
        answers(backend_kind::cpu, activation_format::float32));
  CHECK(cuda_emulator::graph_launches() > before);
}

TEST_CASE("a fault of the device ends what runs, and is told", "[cuda]") {
  engine::cuda::link_backend();
  engine::engine_config config;
  config.backend = backend_kind::cuda;
  config.kv_bytes = 16 * k_slab_bytes;
  std::vector<std::string> faults;
  config.on_fault = [&faults](const std::string& what) { faults.push_back(what); };
  const auto opened = open_engine(config);
  CHECK(opened->info().device == "emulated device");
  cuda_emulator::fail_next(cudaErrorIllegalAddress);
  const auto sink = std::make_shared<collector>();
  REQUIRE(opened->submit(request_of({1, 2, 3}, 4), sink));
  CHECK(sink->wait() == engine::finish_reason::failed);
  opened->stop();
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].find("illegal memory access") != std::string::npos);
}

TEST_CASE("a model that the device has no room for is refused with the sum, before it is loaded", "[cuda]") {
  engine::cuda::link_backend();
  cuda_emulator::set_memory(1 << 20);
  engine::engine_config config;
  config.model_dir = k_model;
  config.backend = backend_kind::cuda;
  const auto opened = engine::engine::open(config);
  cuda_emulator::set_memory(std::size_t{1} << 32);
  REQUIRE_FALSE(opened);
  CHECK(opened.error().detail.find("of 1048576") != std::string::npos);
}
