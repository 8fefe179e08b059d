#include <fmt/format.h>

#include <cstdio>
#include <thread>

#include "engine/eval/eval.hpp"
#include "gateway/cli/commands.hpp"
#include "gateway/cli/model_commands.hpp"

namespace weir::gateway::cli {

namespace {

struct eval_arguments {
  engine::eval::eval_options options;
  std::string backend = "cpu";
  std::string weights = "stored";
  std::string activations = "float32";
  bool json = false;
};

std::string errors_json(const engine::eval::eval_errors& e) {
  return fmt::format(
      R"("logits":{},"next_logprob":{},"kda_state":{},"argmax_mismatches":{},"greedy_mismatches":{})",
      e.logits, e.next_logprob, e.kda_state, e.argmax_mismatches, e.greedy_mismatches);
}

void print_json(const engine::eval::eval_report& report, const std::string& backend) {
  std::string cases;
  for (const auto& c : report.cases) {
    cases += fmt::format(R"({}{{"prompt_tokens":{},"greedy_tokens":{},{}}})", cases.empty() ? "" : ",",
                         c.prompt_tokens, c.greedy_tokens, errors_json(c.errors));
  }
  fmt::print(
      R"({{"passed":{},"backend":"{}","tolerance":{},"tokens":{},"seconds":{},"worst":{{{}}},"cases":[{}]}})",
      report.passed(), backend, report.tolerance, report.tokens, report.seconds, errors_json(report.worst),
      cases);
  fmt::print("\n");
}

void print_text(const engine::eval::eval_report& report, const std::string& backend) {
  fmt::print("{} cases, {} tokens in {:.2f} s, backend {}\n", report.cases.size(), report.tokens,
             report.seconds, backend);
  fmt::print("worst absolute error   logits {:.3g}   next logprob {:.3g}   KDA state norm {:.3g}\n",
             report.worst.logits, report.worst.next_logprob, report.worst.kda_state);
  fmt::print("mismatches             argmax {}   greedy {}\n", report.worst.argmax_mismatches,
             report.worst.greedy_mismatches);
  fmt::print("{} (tolerance {})\n", report.passed() ? "within tolerance" : "OVER TOLERANCE",
             report.tolerance);
}

int evaluate(eval_arguments arguments) {
  arguments.options.backend =
      arguments.backend == "reference" ? engine::backend_kind::reference : engine::backend_kind::cpu;
  arguments.options.weights = *engine::weight_format_of(arguments.weights);
  arguments.options.activations = *engine::activation_format_of(arguments.activations);
  const auto report = engine::eval::evaluate(arguments.options);
  if (!report) {
    fmt::print(stderr, "weir model eval: {}\n", report.error().detail);
    return k_failed;
  }
  if (arguments.json) {
    print_json(*report, arguments.backend);
  } else {
    print_text(*report, arguments.backend);
  }
  return report->passed() ? k_ok : k_failed;
}

}  // namespace

void add_weights_option(CLI::App& app, std::string& weights) {
  app.add_option("--weights", weights,
                 "As stored, or narrowed when loaded: int8 (all large matrices) or mxfp4 (routed experts)")
      ->check(CLI::IsMember({"stored", "int8", "mxfp4"}))
      ->capture_default_str();
}

void add_activations_option(CLI::App& app, std::string& activations) {
  app.add_option(
         "--activations", activations,
         "Of matrix products: float32, or narrow: rounded to the weights' precision, as GPUs do, faster")
      ->check(CLI::IsMember({"float32", "narrow"}))
      ->capture_default_str();
}

void add_model(CLI::App& app, command& chosen) {
  auto* model = app.add_subcommand("model", "Checkpoints of the embedded engine");
  model->require_subcommand(1);
  add_model_synth(*model, chosen);
  add_model_bench(*model, chosen);
  add_model_beside(*model, chosen);
  add_model_plan(*model, chosen);
  auto arguments = std::make_shared<eval_arguments>();
  auto& options = arguments->options;
  options.compute_threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  auto* eval = model->add_subcommand("eval", "Compare a checkpoint's results with golden values");
  eval->add_option("-m,--model", options.model_dir, "Checkpoint folder in the published layout")->required();
  eval->add_option("--cases", options.cases,
                   "Golden values: prompts as token ids with logits, argmax, greedy")
      ->required();
  eval->add_option("--backend", arguments->backend, "cpu (vectorised float32) or reference (scalar double)")
      ->check(CLI::IsMember({"cpu", "reference"}))
      ->capture_default_str();
  add_weights_option(*eval, arguments->weights);
  add_activations_option(*eval, arguments->activations);
  eval->add_option("--tolerance", options.tolerance, "Largest absolute error that passes")
      ->capture_default_str();
  eval->add_flag("--json", arguments->json, "One JSON object instead of text");
  eval->footer("Exit code 1 when an error is over the tolerance or a token differs.");
  eval->callback([arguments, &chosen] { chosen = [arguments] { return evaluate(*arguments); }; });
}

}  // namespace weir::gateway::cli
