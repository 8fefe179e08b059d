#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <memory>

#include "loadtest/cli.hpp"
#include "loadtest/run.hpp"

namespace weir::loadtest {

namespace {

struct arguments {
  run_options options;
  std::string prompt_file;
  bool json = false;
};

// One prompt per line; empty lines are left out.
std::vector<std::string> read_prompts(const std::string& file) {
  std::ifstream in(file);
  std::vector<std::string> prompts;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) prompts.push_back(std::move(line));
  }
  return prompts;
}

int execute(arguments& given) {
  if (!given.prompt_file.empty()) given.options.prompts = read_prompts(given.prompt_file);
  const auto outcome = run(given.options);
  if (!outcome) {
    std::fprintf(stderr, "weir-loadtest: %s\n", outcome.error().c_str());
    return k_exit_bad_arguments;
  }
  const auto& measured = outcome->measured;
  const auto text = given.json ? measured.json(outcome->seconds) : measured.table(outcome->seconds);
  std::fputs(text.c_str(), stdout);
  return measured.failed() == 0 ? 0 : k_exit_failures;
}

}  // namespace

command add_run_command(CLI::App& app) {
  const auto given = std::make_shared<arguments>();
  auto& options = given->options;
  auto* command = app.add_subcommand("run", "Send streamed chat completions; report latency and throughput");
  command->footer(
      "Example: weir-loadtest run --url http://127.0.0.1:8080 --model weir-tiny --requests 200 --concurrency "
      "8\n"
      "Exit codes: 0 all requests completed, 1 some failed, 2 bad arguments.");
  command->add_option("--url", options.url, "Base address, without /v1")->capture_default_str();
  command->add_option("--model", options.model, "Model name")->capture_default_str();
  command->add_option("--api-key", options.api_key, "Sent as a bearer token");
  command->add_option("--prompts", given->prompt_file, "File with one prompt a line, taken in turn")
      ->check(CLI::ExistingFile);
  command->add_option("--requests", options.requests, "How many")
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str();
  command->add_option("--concurrency", options.concurrency, "Closed loop: requests at once")
      ->check(CLI::Range(1, 20'000))
      ->capture_default_str();
  command
      ->add_option("--rate", options.rate_per_s,
                   "Open loop: mean arrivals per second (Poisson), instead of --concurrency")
      ->check(CLI::Range(0.001, 1e6));
  command->add_option("--max-tokens", options.max_tokens, "Longest answer")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  command->add_option("--temperature", options.temperature, "0 is greedy")
      ->check(CLI::Range(0.0, 2.0))
      ->capture_default_str();
  command->add_option("--seed", options.seed, "Of the arrivals")->capture_default_str();
  command->add_option("--timeout-ms", options.timeout_ms, "Of one request")
      ->check(CLI::Range(1, 86'400'000))
      ->capture_default_str();
  command
      ->add_option("--ramp-s", options.ramp_s, "Closed loop: start the first requests evenly over this time")
      ->check(CLI::Range(0.0, 3'600.0));
  command->add_flag("--check-sequence", options.check_sequence,
                    "Fail where a mock's numbered tokens are not complete and in order");
  command->add_flag("--json", given->json,
                    "One JSON object with the names of vLLM's bench serve, instead of a table");
  command->add_flag("--progress", options.progress, "A line per second on standard error");
  return {command, [given] { return execute(*given); }};
}

}  // namespace weir::loadtest
