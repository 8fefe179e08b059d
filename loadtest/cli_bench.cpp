#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <memory>

#include "loadtest/bench/comparison.hpp"
#include "loadtest/cli.hpp"
#include "loadtest/endpoint.hpp"
#include "loadtest/file_limit.hpp"

namespace weir::loadtest {

namespace {

struct arguments {
  bench::comparison_options options;
  std::string direct;
  std::string paced_direct;
  std::vector<std::string> targets;
  std::vector<std::string> paced_targets;
  std::vector<std::string> scenarios;
  double seconds = 2;
  std::string json_file;
};

std::string footer() {
  std::string out =
      "Each scenario is run at every target in turn, --rounds times: direct, A, B, direct, A, B, ...\n"
      "req/s is the middle one of the rounds; times and CPU are over all of them. \"added\" is against the "
      "direct\n"
      "way. CPU is that of PID, its threads and its descendants over the measured time; RSS the largest at "
      "a\n"
      "round's end. With a target named nginx, the last columns are ratios to it: of req/s, of the added "
      "p50, and\n"
      "of CPU (per event for streams, per request otherwise). A scenario with failures shows them, not "
      "numbers.\n"
      "paced-500 runs only with --paced-direct, against a mock that has --itl-ms.\n\nScenarios:\n";
  for (const auto& one : bench::scenario_table())
    out += fmt::format("  {:<19}{}; {} connections\n", one.name, one.what, one.connections);
  return out +
         "\nExample:\n  weir-loadtest bench --direct http://127.0.0.1:9000 --target "
         "nginx=http://127.0.0.1:9001,4711\nExit codes: 0 all measured, 1 a scenario had failures, 2 bad "
         "arguments.\n";
}

std::expected<bench::load_target, std::string> parse_target(std::string name, std::string_view url) {
  bench::load_target out{.name = std::move(name)};
  if (const auto comma = url.find(','); comma != std::string_view::npos) {
    const auto digits = url.substr(comma + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out.pid);
    if (error != std::errc{} || end != digits.data() + digits.size() || out.pid <= 0)
      return std::unexpected(fmt::format("'{}' is no process id", digits));
    url = url.substr(0, comma);
  }
  constexpr std::string_view k_scheme = "http://";
  if (!url.starts_with(k_scheme))
    return std::unexpected(fmt::format("'{}' does not start with http://", url));
  url.remove_prefix(k_scheme.size());
  if (url.ends_with('/')) url.remove_suffix(1);
  const auto endpoint = parse_endpoint(url);
  if (!endpoint) return std::unexpected(endpoint.error());
  out.endpoint = *endpoint;
  return out;
}

std::expected<std::vector<bench::load_target>, std::string> parse_targets(
    const std::string& direct, const std::vector<std::string>& named) {
  std::vector<bench::load_target> out;
  auto first = parse_target("direct", direct);
  if (!first) return std::unexpected(first.error());
  out.push_back(std::move(*first));
  for (const std::string_view text : named) {
    const auto equals = text.find('=');
    if (equals == std::string_view::npos)
      return std::unexpected(fmt::format("'{}' is not NAME=URL[,PID]", text));
    auto one = parse_target(std::string(text.substr(0, equals)), text.substr(equals + 1));
    if (!one) return std::unexpected(one.error());
    out.push_back(std::move(*one));
  }
  return out;
}

// Fills in the options; the error is a sentence.
std::expected<void, std::string> complete(arguments& given) {
  auto& options = given.options;
  auto targets = parse_targets(given.direct, given.targets);
  if (!targets) return std::unexpected(targets.error());
  options.targets = std::move(*targets);
  if (!given.paced_direct.empty()) {
    auto paced = parse_targets(given.paced_direct, given.paced_targets);
    if (!paced) return std::unexpected(paced.error());
    options.paced_targets = std::move(*paced);
  }
  for (const auto& name : given.scenarios) {
    const auto* found = bench::find_scenario(name);
    if (found == nullptr) return std::unexpected(fmt::format("'{}' names no scenario", name));
    options.scenarios.push_back(found);
  }
  for (const auto& one : bench::scenario_table()) {
    if (given.scenarios.empty() && (!one.paced || !options.paced_targets.empty()))
      options.scenarios.push_back(&one);
  }
  options.load.measured = std::chrono::milliseconds(static_cast<std::int64_t>(given.seconds * 1e3));
  return {};
}

int execute(arguments& given) {
  if (const auto completed = complete(given); !completed) {
    std::fprintf(stderr, "weir-loadtest: %s\n", completed.error().c_str());
    return k_exit_bad_arguments;
  }
  raise_file_limit();
  const auto all = bench::compare(
      given.options, [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); });
  std::fputs(bench::comparison_table(all).c_str(), stdout);
  if (!given.json_file.empty()) {
    std::ofstream out(given.json_file);
    out << bench::comparison_json(all);
    if (!out.flush()) throw std::runtime_error("cannot write " + given.json_file);
  }
  const bool failed = std::ranges::any_of(all, [](const auto& one) { return one.failures > 0; });
  return failed ? k_exit_failures : 0;
}

}  // namespace

command add_bench_command(CLI::App& app) {
  const auto given = std::make_shared<arguments>();
  auto& options = given->options;
  auto* command = app.add_subcommand("bench", "Compare proxies in front of a mock: what each adds and costs");
  command->footer(footer());
  command->add_option("--direct", given->direct, "http://ADDRESS:PORT of the mock itself")->required();
  command->add_option("--target", given->targets, "NAME=http://ADDRESS:PORT[,PID], repeatable");
  command->add_option("--paced-direct", given->paced_direct, "A mock with --itl-ms, for paced-500");
  command->add_option("--paced-target", given->paced_targets, "As --target, in front of that mock");
  command->add_option("--scenario", given->scenarios, "Only these, repeatable");
  command->add_option("--rounds", options.rounds, "Of each scenario")
      ->check(CLI::Range(1, 1'000))
      ->capture_default_str();
  command->add_option("--seconds", given->seconds, "Of each load, after a warm-up")
      ->check(CLI::Range(0.05, 3'600.0))
      ->capture_default_str();
  command->add_option("--model", options.load.model, "Model name")->capture_default_str();
  command->add_option("--api-key", options.load.api_key, "Sent as a bearer token");
  command->add_option("--json", given->json_file, "Write all numbers to this file too");
  return {command, [given] { return execute(*given); }};
}

}  // namespace weir::loadtest
