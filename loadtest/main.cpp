#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <fstream>

#include "loadtest/run.hpp"

namespace {

// One prompt per line; empty lines are left out.
std::vector<std::string> read_prompts(const std::string& file) {
  std::ifstream in(file);
  std::vector<std::string> prompts;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) prompts.push_back(std::move(line));
  }
  return prompts;
}

int run(const weir::loadtest::run_options& options, bool json) {
  const auto outcome = weir::loadtest::run(options);
  if (!outcome) {
    std::fprintf(stderr, "weir-loadtest: %s\n", outcome.error().c_str());
    return 2;
  }
  const auto& measured = outcome->measured;
  std::fputs((json ? measured.json(outcome->seconds) : measured.table(outcome->seconds)).c_str(), stdout);
  return measured.failed() == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Load for an OpenAI-compatible endpoint: streamed chat completions with TTFT and inter-token times."};
  app.footer(
      "Example: weir-loadtest run --url http://127.0.0.1:8080 --model weir-tiny --requests 200 --concurrency "
      "8\n"
      "Exit codes: 0 all requests completed, 1 some failed, 2 bad arguments.");
  app.require_subcommand(1);
  weir::loadtest::run_options options;
  std::string prompt_file;
  bool json = false;
  auto* command = app.add_subcommand("run", "Send requests and report latency and throughput");
  command->add_option("--url", options.url, "Base address, without /v1")->capture_default_str();
  command->add_option("--model", options.model, "Model name")->capture_default_str();
  command->add_option("--api-key", options.api_key, "Sent as a bearer token");
  command->add_option("--prompts", prompt_file, "File with one prompt a line, taken in turn")
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
  command->add_flag("--json", json,
                    "One JSON object with the names of vLLM's bench serve, instead of a table");
  command->add_flag("--progress", options.progress, "A line per second on standard error");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  if (!prompt_file.empty()) options.prompts = read_prompts(prompt_file);
  try {
    return run(options, json);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "weir-loadtest: %s\n", e.what());
    return 1;
  }
}
