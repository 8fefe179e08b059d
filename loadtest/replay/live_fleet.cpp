#include "loadtest/replay/live_fleet.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>

namespace weir::loadtest::replay {

namespace {

constexpr std::chrono::seconds k_start_timeout{60};
constexpr std::int64_t k_mock_context = 1 << 30;  // traces have longer prompts than most models
constexpr double k_seconds_per_hour = 3600;

struct mock_addresses {
  std::string url, events, replay;
};

bool has_events(const fleet_options& options) {
  return options.replay.knows.source == knowledge::events;
}

const char* mock_retention(retention_kind kind) {
  switch (kind) {
    case retention_kind::dense:
      return "dense";
    case retention_kind::prompt_end:
      return "prompt-end";
    case retention_kind::value:
    case retention_kind::frequency:
      return "value";
    case retention_kind::second_sighting:
      break;
  }
  return "second-sighting";
}

double tokens_per_s(const fleet_options& options) {
  return options.replay.blocks_per_s * k_trace_block_tokens * options.speed;
}

std::vector<std::string> mock_command(const fleet_options& options) {
  const auto& cache = options.replay.knows.cache;
  std::vector<std::string> out{options.mock.string(),
                               "mock",
                               "--listen=127.0.0.1:0",
                               "--tokens=1",
                               fmt::format("--context={}", k_mock_context),
                               fmt::format("--prefill-tokens-per-s={}", tokens_per_s(options)),
                               fmt::format("--block-tokens={}", cache.page_tokens),
                               fmt::format("--capacity-tokens={}", cache.capacity_tokens),
                               fmt::format("--checkpoint-tokens={}", cache.checkpoint_tokens),
                               fmt::format("--retention={}", mock_retention(cache.keeps))};
  if (options.replay.sends_hints) out.emplace_back("--accept-hints");
  if (has_events(options)) {
    out.emplace_back("--kv-events=tcp://127.0.0.1:*");
    out.emplace_back("--kv-replay=tcp://127.0.0.1:*");
  }
  return out;
}

std::string target_json(const fleet_options& options, std::size_t number, const mock_addresses& at) {
  const auto& replay = options.replay;
  const auto& cache = replay.knows.cache;
  const bool dense = cache.keeps == retention_kind::dense;
  const auto believed =
      static_cast<std::int64_t>(static_cast<double>(cache.capacity_tokens) * replay.knows.capacity_believed);
  std::string out = fmt::format(
      R"({{"name":"r{}","http":{{"base_url":"{}/v1"}},)"
      R"("speed":{{"prefill_tokens_per_s":{:.0f},"ttft_base_ms":1}},"price":{{"usd_per_hour":{}}},)"
      R"("cache":{{"capacity_tokens":{},"block_tokens":{},"retention":"{}")",
      number, at.url, tokens_per_s(options),
      replay.work_price * replay.how.value_of_time_usd_per_s * k_seconds_per_hour,
      std::max<std::int64_t>(believed, 1), cache.page_tokens,
      dense                                       ? "dense"
      : cache.keeps == retention_kind::prompt_end ? "prompt_end"
                                                  : "second_sighting");
  if (!dense) out += fmt::format(R"(,"checkpoint_tokens":{})", cache.checkpoint_tokens);
  if (replay.sends_hints) out += R"(,"hints":true)";
  if (has_events(options)) out += fmt::format(R"(,"events":"{}","replay":"{}")", at.events, at.replay);
  return out + "}}";
}

// JSON, which is YAML.
std::string gateway_config(const fleet_options& options, const std::vector<mock_addresses>& mocks) {
  const auto& replay = options.replay;
  const auto ms = [&](double s) { return std::max(1.0, std::round(s * 1e3 / options.speed)); };
  std::string targets, names;
  for (std::size_t i = 0; i < mocks.size(); ++i) {
    targets += (i == 0 ? "" : ",\n  ") + target_json(options, i + 1, mocks[i]);
    names += fmt::format(R"({}"r{}")", i == 0 ? "" : ",", i + 1);
  }
  std::string tokenizer;
  if (!options.tokenizer.empty())
    tokenizer = fmt::format(R"(,"tokenizer":"{}")", std::filesystem::absolute(options.tokenizer).string());
  std::string out = R"({"listen":"127.0.0.1:0","admin":{"listen":"127.0.0.1:0"},)"
                    R"("auth":{"loopback_open":true},"log":{"access":false},)";
  out +=
      fmt::format(R"("routing":{{"policy":"{}","value_of_time_usd_per_hour":{},"credit":{},)", options.policy,
                  replay.how.value_of_time_usd_per_s * k_seconds_per_hour, replay.how.credit_share);
  out += fmt::format(R"("hold_ms":{:.0f},"hold_max_ms":{:.0f}}},)", ms(replay.placement.hold_s),
                     ms(replay.placement.hold_max_s));
  out += fmt::format("\n\"targets\":[{}],\n", targets);
  out += fmt::format(R"("models":[{{"name":"{}","targets":[{}]{}}}]}})", k_live_model, names, tokenizer);
  return out + '\n';
}

}  // namespace

std::expected<std::unique_ptr<live_fleet>, std::string> live_fleet::start(const fleet_options& options) {
  auto pattern = (std::filesystem::temp_directory_path() / "weir-replay-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr)
    return std::unexpected(fmt::format("{}: {}", pattern, std::strerror(errno)));
  auto out = std::make_unique<live_fleet>(pattern);
  if (auto started = out->start_all(options); !started)
    return std::unexpected(fmt::format("{}; see {}", started.error(), out->keep_logs().string()));
  return out;
}

std::expected<void, std::string> live_fleet::start_all(const fleet_options& options) {
  std::vector<mock_addresses> mocks;
  const auto read = [&](std::string_view what) {
    return programs_.back().read_line(std::string(what) + " on ", k_start_timeout);
  };
  for (std::size_t i = 0; i < options.replay.replicas; ++i) {
    auto mock = child_process::start(mock_command(options), dir_ / fmt::format("mock-{}.log", i + 1));
    if (!mock) return std::unexpected(mock.error());
    programs_.push_back(std::move(*mock));
    mock_addresses at;
    for (auto [what, into] : {std::pair{"listening", &at.url}, std::pair{"kv events", &at.events},
                              std::pair{"kv replay", &at.replay}}) {
      if (into != &at.url && !has_events(options)) break;
      auto said = read(what);
      if (!said) return std::unexpected(fmt::format("mock {} did not start: {}", i + 1, said.error()));
      *into = std::move(*said);
    }
    mocks.push_back(std::move(at));
  }
  const auto config = dir_ / "weir.yaml";
  std::ofstream(config) << gateway_config(options, mocks);
  auto gateway = child_process::start({options.gateway.string(), "serve", "--config", config.string()},
                                      dir_ / "weir.log");
  if (!gateway) return std::unexpected(gateway.error());
  programs_.push_back(std::move(*gateway));
  for (auto [what, into] : {std::pair{"listening", &gateway_}, std::pair{"admin", &admin_}}) {
    const auto said = read(what);
    if (!said) return std::unexpected(fmt::format("the gateway did not start: {}", said.error()));
    const auto at = parse_http_url(*said);
    if (!at) return std::unexpected(at.error());
    *into = *at;
  }
  return {};
}

const std::filesystem::path& live_fleet::keep_logs() noexcept {
  kept_ = true;
  return dir_;
}

live_fleet::~live_fleet() {
  while (!programs_.empty()) programs_.pop_back();
  std::error_code ignored;
  if (!kept_) std::filesystem::remove_all(dir_, ignored);
}

}  // namespace weir::loadtest::replay
