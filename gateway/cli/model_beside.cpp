#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <thread>

#include "engine/bench/beside.hpp"
#include "engine/synth/random_model.hpp"
#include "gateway/cli/model_commands.hpp"

namespace weir::gateway::cli {

namespace {

using engine::bench::gap_summary;

constexpr double k_milli = 1e3;

struct beside_arguments {
  engine::bench::beside_options options{.engine = {.kv_bytes = std::int64_t{2} << 30}};
  engine::synth::random_options random;
  std::filesystem::path model_dir;
  std::string weights = "stored";
  std::string activations = "float32";
  bool json = false;
};

std::string gaps_json(const gap_summary& g) {
  return fmt::format(R"({{"count":{},"p50_s":{:.6f},"p95_s":{:.6f},"longest_s":{:.6f}}})", g.count, g.p50_s,
                     g.p95_s, g.longest_s);
}

void print_gaps(const char* name, const gap_summary& g) {
  fmt::print("{:<28} p50 {:>8.1f} ms   p95 {:>8.1f} ms   longest {:>8.1f} ms   ({} tokens)\n", name,
             g.p50_s * k_milli, g.p95_s * k_milli, g.longest_s * k_milli, g.count);
}

void print_text(const engine::bench::beside_report& r, const beside_arguments& a) {
  fmt::print("{} sequences decode, then a prompt of {} tokens comes; decode may become {} times slower\n\n",
             a.options.sequences, a.options.prompt_tokens, a.options.engine.decode_stretch);
  print_gaps("between tokens, before", r.calm);
  print_gaps("between tokens, beside it", r.busy);
  print_gaps("between tokens, after", r.after);
  fmt::print("beside it {:.2f} times the p95 before, {:.2f} times the p95 after\n\n",
             r.busy.p95_s / r.calm.p95_s, r.busy.p95_s / r.after.p95_s);
  fmt::print("prompt to its first token: {:.2f} s alone, {:.2f} s beside them: {:.2f} times\n", r.alone_s,
             r.beside_s, r.beside_s / r.alone_s);
}

int measure(beside_arguments arguments) {
  auto& options = arguments.options;
  const auto refuse = [](const engine::error& e) {
    fmt::print(stderr, "weir model beside: {}\n", e.detail);
    return e.code == engine::errc::bad_request ? k_bad_config : k_failed;
  };
  options.engine.activations = *engine::activation_format_of(arguments.activations);
  auto model =
      load_measured(arguments.model_dir, arguments.random, arguments.weights, options.engine.compute_threads);
  if (!model) return refuse(model.error());
  if (::isatty(STDERR_FILENO) == 1) {
    options.progress = [](const std::string& what) { fmt::print(stderr, "measuring {}\n", what); };
  }
  const auto report = engine::bench::measure_beside(std::move(*model), options);
  if (!report) return refuse(report.error());
  if (arguments.json) {
    fmt::print(R"({{"alone_s":{:.6f},"beside_s":{:.6f},"calm":{},"busy":{},"after":{}}})"
               "\n",
               report->alone_s, report->beside_s, gaps_json(report->calm), gaps_json(report->busy),
               gaps_json(report->after));
  } else {
    print_text(*report, arguments);
  }
  return k_ok;
}

}  // namespace

void add_model_beside(CLI::App& model, command& chosen) {
  auto arguments = std::make_shared<beside_arguments>();
  auto& options = arguments->options;
  options.engine.compute_threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  auto* sub = model.add_subcommand("beside", "Measure what a long prompt costs those who are being answered");
  sub->add_option("-m,--model", arguments->model_dir, "Checkpoint folder in the published layout");
  sub->add_option("-c,--config", arguments->random.config_file,
                  "Instead of --model: a config.json; weights are random, in memory");
  sub->add_option("--threads", options.engine.compute_threads, "Compute threads")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  sub->add_option("--prompt", options.prompt_tokens, "Tokens of the prompt that comes")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  sub->add_option("--sequences", options.sequences, "That decode meanwhile")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  sub->add_option("--context", options.context_tokens, "Tokens that each has before it decodes")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  sub->add_option("--calm", options.calm_steps, "Tokens of each before the prompt comes")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  sub->add_option("--decode-stretch", options.engine.decode_stretch,
                  "How many times slower decode may become; 0: no limit")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  sub->add_option("--kv-bytes", options.engine.kv_bytes, "Memory for states and pages, as 2GiB")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  add_weights_option(*sub, arguments->weights);
  add_activations_option(*sub, arguments->activations);
  sub->add_flag("--json", arguments->json, "One JSON object instead of text");
  sub->footer("Example: weir model beside --config configs/models/kimi-linear-8-layers.json --prompt 4096");
  sub->callback([arguments, &chosen] { chosen = [arguments] { return measure(*arguments); }; });
}

}  // namespace weir::gateway::cli
