#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <thread>

#include "engine/eval/eval.hpp"
#include "engine/parallel/shard.hpp"
#include "gateway/cli/commands.hpp"
#include "gateway/cli/model_commands.hpp"
#include "gateway/cli/ranks.hpp"

namespace weir::gateway::cli {

namespace {

struct eval_arguments {
  engine::eval::eval_options options;
  std::string backend = "auto";
  std::string weights = "stored";
  std::string activations = "float32";
  bool json = false;
  ranks_options ranks;
};

using engine::eval::eval_case;
using engine::eval::eval_errors;
using engine::eval::eval_report;

// JSON's null where there was nothing to compare.
std::string number_json(double value, std::int64_t compared) {
  return compared == 0 || !std::isfinite(value) ? "null" : fmt::format("{}", value);
}

std::string errors_json(const eval_errors& e, const engine::eval::eval_counts& compared) {
  return fmt::format(
      R"("logits":{},"next_logprob":{},"kda_state":{},"argmax_mismatches":{},"greedy_mismatches":{})",
      number_json(e.logits, compared.logits), number_json(e.next_logprob, compared.next_logprob),
      number_json(e.kda_state, compared.kda_state), number_json(e.argmax_mismatches, compared.argmax),
      number_json(e.greedy_mismatches, compared.greedy));
}

void print_json(const eval_report& report) {
  std::string cases;
  for (const auto& c : report.cases) {
    cases += fmt::format(R"({}{{"prompt_tokens":{},"greedy_tokens":{},{}}})", cases.empty() ? "" : ",",
                         c.prompt_tokens, c.greedy_tokens, errors_json(c.errors, c.compared));
  }
  fmt::print(
      R"({{"passed":{},"backend":"{}","tolerance":{},"tokens":{},"seconds":{},"worst":{{{}}},"cases":[{}]}})",
      report.passed(), engine::to_text(report.backend), report.tolerance, report.tokens, report.seconds,
      errors_json(report.worst, report.compared), cases);
  fmt::print("\n");
}

// The largest over the cases, and in which.
std::string worst_text(const eval_report& report, std::int64_t compared, double eval_errors::*error) {
  if (compared == 0) return "not compared";
  const auto worst =
      std::ranges::max_element(report.cases, {}, [error](const eval_case& c) { return c.errors.*error; });
  return fmt::format("{:.3g} in case {}", worst->errors.*error, worst - report.cases.begin());
}

std::string mismatches_text(const eval_report& report, std::int64_t compared,
                            std::int32_t eval_errors::*count) {
  if (compared == 0) return "not compared";
  const auto first =
      std::ranges::find_if(report.cases, [count](const eval_case& c) { return c.errors.*count > 0; });
  if (first == report.cases.end()) return "0";
  return fmt::format("{}, the first in case {}", report.worst.*count, first - report.cases.begin());
}

void print_text(const eval_report& report, const eval_arguments& arguments) {
  const auto& compared = report.compared;
  fmt::print("{} cases, {} tokens in {:.2f} s, backend {}\n", report.cases.size(), report.tokens,
             report.seconds, engine::to_text(report.backend));
  fmt::print("worst absolute error   logits {}   next logprob {}   KDA state norm {}\n",
             worst_text(report, compared.logits, &eval_errors::logits),
             worst_text(report, compared.next_logprob, &eval_errors::next_logprob),
             worst_text(report, compared.kda_state, &eval_errors::kda_state));
  fmt::print("mismatches             argmax {}   greedy {}\n",
             mismatches_text(report, compared.argmax, &eval_errors::argmax_mismatches),
             mismatches_text(report, compared.greedy, &eval_errors::greedy_mismatches));
  const char* const whose = arguments.options.tolerance ? "" : ", the default of this backend and model";
  fmt::print("{} (tolerance {}{})\n", report.passed() ? "within tolerance" : "OVER TOLERANCE",
             report.tolerance, whose);
  const bool narrow = arguments.options.activations == engine::activation_format::narrow;
  if (!report.passed() && (narrow || arguments.options.weights != engine::weight_format::stored)) {
    fmt::print(
        "Fewer bits move logits by hundredths to tenths: say with --tolerance how far is far enough.\n");
  }
}

int evaluate_as_leader(const eval_arguments& arguments) {
  const auto report = engine::eval::evaluate(arguments.options);
  if (!report) {
    fmt::print(stderr, "weir model eval: {}\n", report.error().detail);
    return report.error().code == engine::errc::bad_request ? k_bad_config : k_failed;
  }
  if (arguments.json) {
    print_json(*report);
  } else {
    print_text(*report, arguments);
  }
  return report->passed() ? k_ok : k_failed;
}

int evaluate(eval_arguments arguments) {
  auto& options = arguments.options;
  options.backend = *engine::backend_kind_of(arguments.backend);
  options.weights = *engine::weight_format_of(arguments.weights);
  options.activations = *engine::activation_format_of(arguments.activations);
  const auto as = [&arguments](const engine::ranks_config& place) -> const eval_arguments& {
    arguments.options.ranks = place;
    return arguments;
  };
  const auto check = [&options](const engine::ranks_config& place) -> engine::result<void> {
    const auto model = engine::model::load_model_config(options.model_dir);
    if (!model) return std::unexpected(model.error());
    return engine::parallel::check_shard(*model, options.weights, engine::parallel::shard::of(place));
  };
  return run_ranks(
      arguments.ranks,
      {.name = "model eval",
       .check = check,
       .lead = [&](const auto& place) { return evaluate_as_leader(as(place)); },
       .follow = [&](const auto& place) { return engine::eval::follow_evaluation(as(place).options); }});
}

}  // namespace

void add_backend_option(CLI::App& app, std::string& backend) {
  app.add_option(
         "--backend", backend,
         "cpu (vectorised float32), cuda (an NVIDIA device), reference (scalar double), or auto: cuda "
         "where there is a device and this program was built for it, else cpu")
      ->check(CLI::IsMember(
          std::vector<std::string>(std::begin(engine::k_backend_names), std::end(engine::k_backend_names))))
      ->capture_default_str();
}

void add_weights_option(CLI::App& app, std::string& weights) {
  app.add_option("--weights", weights,
                 "As stored, or narrowed when loaded: int8 (all large matrices) or mxfp4 (routed experts)")
      ->check(CLI::IsMember({"stored", "int8", "mxfp4"}))
      ->capture_default_str();
}

void add_activations_option(CLI::App& app, std::string& activations) {
  std::vector<std::string> formats{"float32", "narrow"};
  if (activations == "auto") formats.insert(formats.begin(), activations);
  app.add_option(
         "--activations", activations,
         std::string("Of matrix products: float32, or narrow: rounded to the weights' precision, faster") +
             (activations == "auto" ? "; auto: narrow on cuda, else float32" : ""))
      ->check(CLI::IsMember(formats))
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
  add_backend_option(*eval, arguments->backend);
  add_weights_option(*eval, arguments->weights);
  add_activations_option(*eval, arguments->activations);
  eval->add_option("--tolerance", options.tolerance,
                   "Largest absolute error that passes; default: 2e-6 for reference, 1e-4 for cpu, 5e-4 for "
                   "cpu where residual blocks or narrow experts amplify what float32 rounds")
      ->check(finite_range(0, 1e6));
  add_ranks_options(*eval, arguments->ranks);
  eval->add_option("--first", options.cases_max, "Only so many cases, from the first; default: all")
      ->check(CLI::Range(1, 1 << 20));
  eval->add_flag("--json", arguments->json, "One JSON object instead of text");
  eval->footer(
      "Exit code 1 when an error is over the tolerance or a token differs, 2 where the cases hold nothing to "
      "compare.");
  eval->callback([arguments, &chosen] { chosen = [arguments] { return evaluate(*arguments); }; });
}

}  // namespace weir::gateway::cli
