#include "loadtest/cli_replay_live.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>

#include "loadtest/replay/live_fleet.hpp"

namespace weir::loadtest {

namespace {

// Of the mean TTFT; a sender that is later than this falsifies it.
constexpr double k_late_share_max = 0.1;

std::filesystem::path own_program() {
  return std::filesystem::read_symlink("/proc/self/exe");
}

std::expected<std::string, std::string> read_key(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string key;
  if (!std::getline(in, key) || key.empty())
    return std::unexpected(fmt::format("--key-file {}: holds no key in its first line", file.string()));
  return key;
}

std::expected<std::unique_ptr<replay::live_fleet>, std::string> start_fleet(
    const live_arguments& given, const replay::replay_options& options, const std::string& policy) {
  replay::fleet_options fleet{.gateway = given.gateway,
                              .mock = own_program(),
                              .tokenizer = given.tokenizer,
                              .policy = policy,
                              .speed = given.speed,
                              .replay = options};
  if (fleet.gateway.empty()) fleet.gateway = own_program().replace_filename("weir");
  std::replace(fleet.policy.begin(), fleet.policy.end(), '-', '_');
  return replay::live_fleet::start(fleet);
}

std::expected<void, std::string> fill_addresses(const live_arguments& given, replay::live_options& out) {
  const auto gateway = parse_http_url(given.url);
  if (!gateway) return std::unexpected("--url: " + gateway.error());
  const auto admin = parse_http_url(given.admin_url);
  if (!admin) return std::unexpected("--admin-url: " + admin.error());
  out.gateway = *gateway;
  out.admin = *admin;
  out.model = given.model;
  if (given.key_file.empty()) return {};
  auto key = read_key(given.key_file);
  if (!key) return std::unexpected(key.error());
  out.api_key = std::move(*key);
  return {};
}

}  // namespace

void add_live_options(CLI::App& command, live_arguments& given) {
  constexpr const char* k_group = "Live (--engine live)";
  command.add_option("--speed", given.speed, "Trace seconds in a second")
      ->check(CLI::Range(0.01, 1'000.0))
      ->capture_default_str()
      ->group(k_group);
  command.add_option("--gateway", given.gateway, "The gateway to start; default: weir beside this program")
      ->check(CLI::ExistingFile)
      ->group(k_group);
  command
      .add_option("--tokenizer", given.tokenizer,
                  "Folder of a tokenizer for that gateway: prompts are token ids, not text")
      ->check(CLI::ExistingDirectory)
      ->group(k_group);
  auto* url = command.add_option("--url", given.url, "A gateway that runs, in front of mocks that run")
                  ->excludes("--gateway")
                  ->group(k_group);
  auto* admin = command.add_option("--admin-url", given.admin_url, "Its admin address, for its metrics")
                    ->needs(url)
                    ->group(k_group);
  auto* model =
      command.add_option("--model", given.model, "Its name for the mocks")->needs(url)->group(k_group);
  url->needs(admin)->needs(model);
  command.add_option("--key-file", given.key_file, "With an API key in its first line")
      ->needs(url)
      ->check(CLI::ExistingFile)
      ->group(k_group);
}

std::expected<void, std::string> check_live(const CLI::App& command, const live_arguments& given,
                                            const replay::replay_options& options, std::size_t policies) {
  for (const auto* name : {"--estimate", "--pending-weight", "--lengths"}) {
    if (command.get_option(name)->count() > 0)
      return std::unexpected(fmt::format("{} does not go with --engine live", name));
  }
  if (options.knows.cache.keeps == replay::retention_kind::frequency)
    return std::unexpected("--retention frequency: no mock keeps by it");
  if (options.knows.source == replay::knowledge::truth)
    return std::unexpected("--source truth: a gateway cannot look into replicas");
  if (!given.url.empty() && policies > 1)
    return std::unexpected("--policy: the policy of the gateway at --url is its own; name that one");
  if (given.url.empty() && options.knows.source == replay::knowledge::events && given.tokenizer.empty())
    return std::unexpected("KV events are of token ids: the gateway needs a --tokenizer to go by them");
  return {};
}

std::expected<replay::replay_result, std::string> run_live_policy(
    std::span<const replay::trace_request> trace, const live_arguments& given,
    const replay::replay_options& options, const std::string& policy) {
  replay::live_options live{.model = replay::k_live_model,
                            .speed = given.speed,
                            .replicas = options.replicas,
                            .progress = options.progress};
  if (!given.tokenizer.empty()) live.form = replay::prompt_form::ids;
  std::unique_ptr<replay::live_fleet> fleet;
  if (given.url.empty()) {
    auto started = start_fleet(given, options, policy);
    if (!started) return std::unexpected(started.error());
    fleet = std::move(*started);
    live.gateway = fleet->gateway();
    live.admin = fleet->admin();
  } else if (auto filled = fill_addresses(given, live); !filled) {
    return std::unexpected(filled.error());
  }
  auto result = replay::run_live(trace, live);
  if (!result) {
    if (!fleet) return std::unexpected(result.error());
    return std::unexpected(fmt::format("{}; see {}", result.error(), fleet->keep_logs().string()));
  }
  const auto& figures = result->figures;
  if (result->late_p99_s > k_late_share_max * figures.ttft_mean_s) {
    std::fprintf(stderr,
                 "weir-loadtest: one request in a hundred was sent %.2f s of the trace late: take a lower "
                 "--speed\n",
                 result->late_p99_s);
  }
  return std::move(result->figures);
}

}  // namespace weir::loadtest
