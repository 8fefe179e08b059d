// weir_gguf write DIR FILE [--widened]: a checkpoint as a file that llama.cpp reads.
// weir_gguf greedy DIR PROMPTS STEPS [--reference] [--one-eps] [--threads N]: what this engine continues the
// prompts of a golden.json with; --one-eps computes every norm with rms_norm_eps, as llama.cpp does.
#include <charconv>
#include <cstdio>
#include <string_view>

#include "engine/eval/golden.hpp"
#include "kernels/parallel.hpp"
#include "tests/gguf/greedy.hpp"
#include "tests/gguf/kimi_linear.hpp"

namespace {

namespace gguf = weir::tests::gguf;
namespace engine = weir::engine;
using arguments = std::span<const std::string_view>;
using model_result = engine::result<std::shared_ptr<const engine::runner::loaded_model>>;

int refuse(const std::string& what) {
  std::fprintf(stderr, "weir_gguf: %s\n", what.c_str());
  return 1;
}

bool has(arguments given, std::string_view flag) {
  return std::find(given.begin(), given.end(), flag) != given.end();
}

// -1: not a number from 1 to `most`.
std::int32_t number(std::string_view text, std::int32_t most) {
  std::int32_t value = -1;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  return read.ec == std::errc() && read.ptr == text.data() + text.size() && value >= 1 && value <= most
             ? value
             : -1;
}

int write(arguments given) {
  const model_result model = engine::runner::load_model(given[1]);
  if (!model) return refuse(model.error().detail);
  const auto how = has(given, "--widened") ? gguf::precision::widened : gguf::precision::stored;
  const auto file = gguf::kimi_linear_file(**model, how);
  if (!file) return refuse(file.error().detail);
  const auto bytes = file->write(given[2]);
  if (!bytes) return refuse(bytes.error().detail);
  std::printf("%llu bytes\n", static_cast<unsigned long long>(*bytes));
  return 0;
}

int greedy(arguments given) {
  gguf::greedy_options options;
  options.steps = number(given[3], gguf::k_steps_max);
  if (options.steps < 0) return refuse("STEPS: expected a number from 1");
  for (std::size_t i = 4; i + 1 < given.size(); ++i) {
    if (given[i] == "--threads")
      options.compute_threads = number(given[i + 1], weir::kernels::k_compute_threads_max);
  }
  if (options.compute_threads < 0) return refuse("--threads: expected a number from 1");
  if (has(given, "--reference")) options.backend = engine::backend_kind::reference;
  const model_result model = engine::runner::load_model(given[1]);
  if (!model) return refuse(model.error().detail);
  const auto& config = (*model)->config;
  if (has(given, "--one-eps")) options.latent_norm_eps = options.l2_norm_eps = config.rms_norm_eps;
  const auto cases = engine::eval::read_golden(given[2], config);
  if (!cases) return refuse(cases.error().detail);
  std::vector<std::vector<std::int32_t>> prompts;
  for (const auto& golden : *cases) {
    prompts.push_back(golden.prompt);
    if (golden.prompt.size() + static_cast<std::size_t>(options.steps) >
        static_cast<std::size_t>(config.context_tokens))
      return refuse("a prompt and its steps are longer than the model's context");
  }
  const std::string out = gguf::continue_greedily(*model, prompts, options);
  return std::fwrite(out.data(), 1, out.size(), stdout) == out.size() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> given(argv + 1, argv + argc);
  if (given.size() >= 3 && given[0] == "write") return write(given);
  if (given.size() >= 4 && given[0] == "greedy") return greedy(given);
  return refuse(
      "usage: write DIR FILE [--widened] | greedy DIR PROMPTS STEPS [--reference] [--one-eps] [--threads N]");
}
