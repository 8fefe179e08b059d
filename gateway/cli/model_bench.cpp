#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>
#include <thread>

#include "engine/bench/bench.hpp"
#include "engine/runner/backend.hpp"
#include "engine/synth/random_model.hpp"
#include "gateway/cli/model_commands.hpp"

namespace weir::gateway::cli {

namespace {

using engine::bench::bench_report;
using engine::bench::phase;

constexpr double k_giga = 1e9;
constexpr double k_milli = 1e3;
constexpr double k_ops_shown_min = 0.005;  // share of a phase

struct bench_arguments {
  engine::bench::bench_options options;
  engine::synth::random_options random;
  std::filesystem::path model_dir;
  std::string backend = "auto";
  std::string weights = "stored";
  std::string activations = "float32";
  bool json = false;
};

// Operations of a phase with their share of its time, the dearest first.
std::vector<std::pair<std::string_view, double>> shares_of(const phase& p) {
  std::vector<std::pair<std::string_view, double>> out;
  for (std::size_t i = 0; i < kernels::k_ops; ++i) {
    const double share = static_cast<double>(p.times.ns[i]) / (p.seconds * k_giga);
    out.emplace_back(kernels::to_text(static_cast<kernels::op>(i)), share);
  }
  std::ranges::sort(out, [](const auto& a, const auto& b) { return a.second > b.second; });
  return out;
}

std::string shares_text(const phase& p) {
  std::string text;
  for (const auto& [name, share] : shares_of(p)) {
    if (share < k_ops_shown_min) break;
    text += fmt::format("{}{} {:.0f}%", text.empty() ? "" : ", ", name, share * 100);
  }
  return text;
}

std::string shares_json(const phase& p) {
  std::string text;
  for (const auto& [name, share] : shares_of(p)) {
    if (share > 0) text += fmt::format("{}\"{}\":{:.4f}", text.empty() ? "" : ",", name, share);
  }
  return '{' + text + '}';
}

double step_ms(const phase& p) {
  return p.seconds * k_milli / static_cast<double>(p.steps);
}

void print_row(const phase& p, const kernels::machine_limits& machine) {
  const auto name = p.batch == 0 ? std::string("prefill") : fmt::format("decode, batch {}", p.batch);
  fmt::print("{:<18} {:>10.1f} {:>10.2f} {:>9.2f} {:>6.0f}% {:>10.1f} {:>6.0f}%  {:.0f}% of {}\n", name,
             p.tokens_per_s(), step_ms(p), p.read_bytes_per_s() / k_giga,
             100 * p.read_bytes_per_s() / machine.read_bytes_per_s, p.flops_per_s() / k_giga,
             100 * p.multiply_s / p.seconds, 100 * p.share_of_bound(),
             p.bound_by_reading() ? "reading" : "multiply-adds");
}

void print_text(const bench_report& r, const bench_arguments& a) {
  const double bf16 = r.machine.bf16_flops_per_s / k_giga;
  const double int8 = r.machine.int8_ops_per_s / k_giga;
  fmt::print("{} parameters, {} of weights, {} of them for one token\n", amount_text(r.parameters),
             bytes_text(r.weight_bytes), bytes_text(r.token_bytes));
  fmt::print("this machine with {} threads, {}: reads {:.2f} GB/s; {:.1f} GFLOP/s float32{}{}\n\n",
             a.options.compute_threads, kernels::instruction_set(), r.machine.read_bytes_per_s / k_giga,
             r.machine.flops_per_s / k_giga, bf16 > 0 ? fmt::format(", {:.1f} bf16", bf16) : std::string(),
             int8 > 0 ? fmt::format(", {:.1f} int8", int8) : std::string());
  fmt::print("{:<18} {:>10} {:>10} {:>9} {:>7} {:>10} {:>7}  {}\n", "", "tokens/s", "ms a step", "GB/s",
             "of max", "GFLOP/s", "of max", "of its bound");
  print_row(r.prefill, r.machine);
  for (const auto& p : r.decode) print_row(p, r.machine);
  fmt::print("\nWhere the time went\n{:<18} {}\n", "prefill", shares_text(r.prefill));
  for (const auto& p : r.decode)
    fmt::print("{:<18} {}\n", fmt::format("decode, batch {}", p.batch), shares_text(p));
}

std::string phase_json(const phase& p) {
  return fmt::format(
      R"({{"batch":{},"tokens":{},"steps":{},"seconds":{:.4f},"tokens_per_s":{:.3f},"step_ms":{:.4f},)"
      R"("weight_bytes_per_s":{:.0f},"flops_per_s":{:.0f},"share_of_reading":{:.4f},)"
      R"("share_of_multiply_adds":{:.4f},"share_of_time":{}}})",
      p.batch, p.tokens, p.steps, p.seconds, p.tokens_per_s(), step_ms(p), p.read_bytes_per_s(),
      p.flops_per_s(), p.read_s / p.seconds, p.multiply_s / p.seconds, shares_json(p));
}

void print_json(const bench_report& r, const bench_arguments& a) {
  std::string decode;
  for (const auto& p : r.decode) decode += (decode.empty() ? "" : ",") + phase_json(p);
  fmt::print(
      R"({{"parameters":{},"weight_bytes":{},"token_bytes":{},)"
      R"("machine":{{"threads":{},"instructions":"{}","read_bytes_per_s":{:.0f},"flops_per_s":{:.0f},)"
      R"("bf16_flops_per_s":{:.0f},"int8_ops_per_s":{:.0f}}},"activations":"{}","prefill":{},"decode":[{}]}})"
      "\n",
      r.parameters, r.weight_bytes, r.token_bytes, a.options.compute_threads, kernels::instruction_set(),
      r.machine.read_bytes_per_s, r.machine.flops_per_s, r.machine.bf16_flops_per_s, r.machine.int8_ops_per_s,
      a.activations, phase_json(r.prefill), decode);
}

int measure(bench_arguments arguments) {
  auto& options = arguments.options;
  options.activations = *engine::activation_format_of(arguments.activations);
  const auto refuse = [](const engine::error& e) {
    fmt::print(stderr, "weir model bench: {}\n", e.detail);
    return e.code == engine::errc::bad_request ? k_bad_config : k_failed;
  };
  const auto backend = engine::runner::resolve(*engine::backend_kind_of(arguments.backend));
  if (!backend) return refuse(backend.error());
  options.backend = *backend;
  auto model = load_measured(arguments.model_dir, arguments.random, arguments.weights,
                             options.compute_threads, options.backend == engine::backend_kind::cuda);
  if (!model) return refuse(model.error());
  if (::isatty(STDERR_FILENO) == 1) {
    options.progress = [](const std::string& what) { fmt::print(stderr, "measuring {}\n", what); };
  }
  const auto report = engine::bench::run(std::move(*model), options);
  if (!report) return refuse(report.error());
  if (arguments.json) {
    print_json(*report, arguments);
  } else {
    print_text(*report, arguments);
  }
  return k_ok;
}

}  // namespace

engine::result<std::shared_ptr<const engine::runner::loaded_model>> load_measured(
    const std::filesystem::path& model_dir, engine::synth::random_options random, std::string_view weights,
    int threads, bool on_device) {
  if (model_dir.empty() == random.config_file.empty())
    return engine::fail(engine::errc::bad_request, "give either --model or --config");
  const auto format = *engine::weight_format_of(weights);
  if (!model_dir.empty())
    return engine::runner::load_model(model_dir, {.weights = format, .threads = threads});
  byte_progress progress("making weights");
  random.weights = format;
  random.threads = threads;
  random.on_device = on_device;
  random.told = [&progress](std::int64_t done, std::int64_t all) { progress(done, all); };
  return engine::synth::make_model(random);
}

void add_model_bench(CLI::App& model, command& chosen) {
  auto arguments = std::make_shared<bench_arguments>();
  auto& options = arguments->options;
  options.compute_threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  auto* sub = model.add_subcommand("bench", "Measure prefill and decode beside what the machine can do");
  sub->add_option("-m,--model", arguments->model_dir, "Checkpoint folder in the published layout");
  sub->add_option("-c,--config", arguments->random.config_file,
                  "Instead of --model: a config.json; weights are random, in memory");
  sub->add_option("--threads", options.compute_threads, "Compute threads")->capture_default_str();
  sub->add_option("--prompt", options.prompt_tokens, "Tokens of the prompt that is prefilled")
      ->capture_default_str();
  sub->add_option("--chunk", options.chunk_tokens, "Tokens of a prefill step")->capture_default_str();
  sub->add_option("--batch", options.batches, "Sequences that decode at once, one run for each number")
      ->delimiter(',')
      ->capture_default_str();
  sub->add_option("--context", options.context_tokens, "Tokens that each has before it decodes")
      ->capture_default_str();
  sub->add_option("--steps", options.decode_steps, "Decode steps before the same positions come again")
      ->capture_default_str();
  sub->add_option("--seconds", options.min_seconds, "Each measurement repeats for at least so long")
      ->check(finite_range(0, 3600))
      ->capture_default_str();
  add_backend_option(*sub, arguments->backend);
  add_weights_option(*sub, arguments->weights);
  add_activations_option(*sub, arguments->activations);
  sub->add_flag("--json", arguments->json, "One JSON object instead of text");
  sub->footer(
      "GB/s counts the weights that steps read, each once; its maximum is reading memory. GFLOP/s counts "
      "matrix\n"
      "products; their maximum is multiply-adds on registers alone, in the arithmetic that the activations "
      "and\n"
      "weights lead to: float32, pairs of bf16, or fours of bytes. The bound is the one that takes longer. "
      "All\n"
      "maxima are measured in the same run.\n\n"
      "Example: weir model bench --config configs/models/kimi-linear-8-layers.json --batch 1,16");
  sub->callback([arguments, &chosen] { chosen = [arguments] { return measure(*arguments); }; });
}

}  // namespace weir::gateway::cli
