// The engine on this machine's GPU: golden values, the memory that was planned beside what is used, and how
// fast Kimi-Linear decodes. weir_gpu_engine ROOT [--golden PART]: with a part of a model's name those golden
// values alone, as for tools that make everything slow. Exit code 1 where something is off.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "engine/bench/bench.hpp"
#include "engine/cuda/cuda_backend.hpp"
#include "engine/engine.hpp"
#include "engine/eval/eval.hpp"
#include "engine/plan/model_sizes.hpp"
#include "engine/runner/backend.hpp"
#include "engine/serve_model.hpp"
#include "engine/synth/random_model.hpp"

namespace {

using namespace weir::engine;
namespace fs = std::filesystem;

constexpr double k_plan_tolerance = 0.03;

struct golden_case {
  const char* model;
  activation_format activations;
  double tolerance;
};

// In bf16 a trained model's logits move by hundredths; random ones choose other experts, so they are left to
// float32.
constexpr golden_case k_cases[] = {
    {"tests/data/kimi-linear-a", activation_format::float32, 1e-4},
    {"tests/data/kimi-k3-a", activation_format::float32, 5e-4},
    {"configs/models/weir-tiny", activation_format::float32, 1e-4},
    {"configs/models/weir-tiny", activation_format::narrow, 0.15},
};

bool check_golden(const fs::path& root, const golden_case& one) {
  eval::eval_options options;
  options.model_dir = root / one.model;
  options.cases = options.model_dir / "golden.json";
  options.backend = backend_kind::cuda;
  options.activations = one.activations;
  options.tolerance = one.tolerance;
  const auto report = eval::evaluate(options);
  const char* const how = one.activations == activation_format::narrow ? "narrow" : "float32";
  if (!report) {
    std::printf("eval   %-28s %-8s FAILED: %s\n", one.model, how, report.error().detail.c_str());
    return false;
  }
  std::printf("eval   %-28s %-8s %s: logits %.2e of %.0e, %lld tokens in %.2f s\n", one.model, how,
              report->passed() ? "ok" : "OVER TOLERANCE", report->worst.logits, one.tolerance,
              static_cast<long long>(report->tokens), report->seconds);
  return report->passed();
}

std::int64_t free_bytes() {
  const auto facts = runner::cuda_backend()->facts(0);
  return facts ? facts->free_memory_bytes : 0;
}

// What the plan says, and what the device has less once the engine is open.
bool check_plan(const std::shared_ptr<const runner::loaded_model>& model, std::int64_t weights_used) {
  engine_config config;
  config.backend = backend_kind::cuda;
  config.kv_bytes = std::int64_t{8} << 30;
  config.sequences_max = 64;
  const std::int64_t before = free_bytes();
  const auto opened = serve_model(config, model);
  if (!opened) {
    std::printf("plan   FAILED: %s\n", opened.error().detail.c_str());
    return false;
  }
  const auto planned = static_cast<double>(plan::weight_bytes(model->config) + config.kv_bytes);
  const auto used = static_cast<double>(before - free_bytes() + weights_used);
  const double off = used / planned - 1.0;
  std::printf("plan   %.3f GB of weights and pool, %.3f GB used: %+.2f%%\n", planned * 1e-9, used * 1e-9,
              off * 100);
  return off < k_plan_tolerance && off > -k_plan_tolerance;
}

void print(const char* what, const bench::phase& p) {
  std::printf("bench  %-20s %9.1f tokens/s   %5.1f%% of %s\n", what, p.tokens_per_s(),
              100 * p.share_of_bound(), p.bound_by_reading() ? "copying memory" : "the tensor peak");
}

bool time_model(const fs::path& root) {
  synth::random_options random;
  random.config_file = root / "configs/models/kimi-linear-48b-a3b.json";
  random.on_device = true;
  random.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const std::int64_t before = free_bytes();
  const auto model = synth::make_model(random);
  if (!model) {
    std::printf("bench  FAILED: %s\n", model.error().detail.c_str());
    return false;
  }
  const std::int64_t weights_used = before - free_bytes();
  bench::bench_options options;
  options.backend = backend_kind::cuda;
  options.activations = activation_format::narrow;
  options.prompt_tokens = 8192;
  options.chunk_tokens = 4096;
  options.batches = {1, 8, 16, 64};
  options.compute_threads = 1;
  const auto report = bench::run(*model, options);
  if (!report) {
    std::printf("bench  FAILED: %s\n", report.error().detail.c_str());
    return false;
  }
  print("prefill of 8192", report->prefill);
  for (const bench::phase& p : report->decode) print(("decode, batch " + std::to_string(p.batch)).c_str(), p);
  return check_plan(*model, weights_used);
}

}  // namespace

int main(int argc, char** argv) {
  const fs::path root = argc > 1 ? argv[1] : ".";
  cuda::link_backend();
  const auto* const backend = runner::cuda_backend();
  if (backend == nullptr || backend->count() == 0) {
    std::puts("SKIP: no CUDA device");
    return 77;
  }
  const std::string part = argc > 3 && std::string(argv[2]) == "--golden" ? argv[3] : "";
  bool good = true;
  for (const golden_case& one : k_cases) {
    if (std::string(one.model).find(part) != std::string::npos) good = check_golden(root, one) && good;
  }
  if (part.empty()) good = time_model(root) && good;
  return good ? 0 : 1;
}
