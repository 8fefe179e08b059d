#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <expected>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>

#include "loadtest/cli.hpp"
#include "loadtest/cli_replay_live.hpp"
#include "loadtest/replay/plot.hpp"
#include "loadtest/replay/replay.hpp"
#include "loadtest/replay/workload.hpp"

namespace weir::loadtest {

namespace {

using policy::policy_kind;

const std::map<std::string, policy_kind> k_policies{
    {"balanced", policy_kind::balanced},
    {"latency", policy_kind::latency},
    {"cost", policy_kind::cost},
    {"least-pending", policy_kind::least_pending},
    {"prefix-greedy", policy_kind::prefix_greedy},
    {"round-robin", policy_kind::round_robin},
    {"random", policy_kind::random},
};

const std::map<std::string, replay::reuse_estimate> k_estimates{
    {"checkpoint", replay::reuse_estimate::checkpoint},
    {"pages", replay::reuse_estimate::pages},
    {"none", replay::reuse_estimate::none},
};

const std::map<std::string, replay::knowledge> k_sources{
    {"simulated", replay::knowledge::simulated},
    {"events", replay::knowledge::events},
    {"truth", replay::knowledge::truth},
};

constexpr const char* k_footer =
    R"(Replays a trace over replicas that prefill one request after another and prints time to first token and
reuse. Several policies (--policy a,b) are compared. --engine sim does so in virtual time with the policy code
that the gateway runs; --engine live over sockets through a gateway.

TRACE is a file of Mooncake's format, one JSON object a line (timestamp in ms, input_length, output_length,
hash_ids of 512-token blocks), or generate:SEED for a mixture of shared roots, deep forks, agents with growing
histories and prompts that share nothing.

Retention: dense (attention-only models: every block can be resumed), prompt-end, second-sighting (a hybrid
model's checkpoints at prompt ends and where a prefix is seen again, evicted by age), frequency (the same,
evicted by saved tokens x frequency per byte), value (checkpoints where the router hints, kept by what they
save).

Live: mocks and a gateway (weir beside this program, or --gateway) are started for each run, configured as the
options say, cold, on free loopback ports, and end with it; all rates and waiting times are --speed times as
fast, all times are given as the trace's. With --url a gateway that runs already is used as it is: start its
--replicas mocks with --prefill-tokens-per-s = --rate x 512 x --speed, the same --capacity-tokens and
--retention, and --block-tokens 512; all of them cold, or what they hold counts. Prompts are text of 4 bytes a
token, by which a gateway without a tokenizer counts like a mock; with --tokenizer they are token ids.
prediction_error_mean is weighted by tokens, load_spread_60s not measured, decision_us_p99 from the gateway's
histogram. The first request that fails ends the run (exit code 1).

JSON, one object or a list of them: hit_rate, predicted_hit_rate, prediction_error_mean, ttft_mean_s,
ttft_p50_s, ttft_p90_s, ttft_p99_s, load_spread, load_spread_60s, decision_us_p99; each the mean over --seeds
runs.

Examples:
  weir-loadtest replay --trace conversation.jsonl --policy balanced,least-pending,random --svg ttft.svg
  weir-loadtest replay --trace conversation.jsonl --policy cost --pending-weight 1 --retention dense --json
  weir-loadtest replay --trace generate:7 --retention value --seeds 5
  weir-loadtest replay --trace conversation.jsonl --requests 1000 --policy balanced,round-robin --engine live
)";

struct arguments {
  std::string trace;
  std::vector<std::string> policies{"balanced"};
  std::string retention = "second-sighting";
  std::string estimate = "checkpoint";
  std::string source = "simulated";
  std::string lengths = "tokens";
  std::string svg;
  std::string engine = "sim";
  int seeds = 1;
  std::size_t requests_max = 0;  // 0: all
  live_arguments live;
  bool json = false;
  bool no_hints = false;
  replay::replay_options options;
};

std::expected<std::vector<replay::trace_request>, std::string> load_all(const arguments& given) {
  constexpr std::string_view k_generate = "generate:";
  if (!given.trace.starts_with(k_generate)) return replay::read_trace(given.trace);
  std::uint64_t seed = 0;
  const std::string_view digits = std::string_view(given.trace).substr(k_generate.size());
  const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), seed);
  if (fault != std::errc() || end != digits.data() + digits.size()) {
    return std::unexpected(fmt::format("--trace {}: the seed is not a number", given.trace));
  }
  const double fleet = given.options.blocks_per_s * static_cast<double>(given.options.replicas);
  return replay::make_workload({.seed = seed, .blocks_per_s = fleet});
}

std::expected<std::vector<replay::trace_request>, std::string> load(const arguments& given) {
  auto out = load_all(given);
  if (out && given.requests_max > 0 && given.requests_max < out->size()) out->resize(given.requests_max);
  return out;
}

class progress_line {
 public:
  progress_line(std::string name, std::size_t total) : name_(std::move(name)), total_(total) {
    shown_ = ::isatty(STDERR_FILENO) == 1;
  }
  ~progress_line() {
    if (shown_) std::fprintf(stderr, "\r\033[K");
  }
  void operator()(std::size_t done) {
    const auto percent = done * 100 / total_;
    if (!shown_ || percent == last_) return;
    last_ = percent;
    std::fprintf(stderr, "\r%s: %3zu%% of %zu requests", name_.c_str(), percent, total_);
  }

 private:
  std::string name_;
  std::size_t total_;
  std::size_t last_ = 101;
  bool shown_;
};

constexpr double k_not_measured = std::numeric_limits<double>::quiet_NaN();

// Every figure, in the order and by the names in which they are printed.
struct figure {
  const char* name;
  double replay::replay_result::*value;
};
constexpr figure k_figures[] = {
    {"hit_rate", &replay::replay_result::hit_rate},
    {"predicted_hit_rate", &replay::replay_result::predicted_hit_rate},
    {"prediction_error_mean", &replay::replay_result::prediction_error_mean},
    {"ttft_mean_s", &replay::replay_result::ttft_mean_s},
    {"ttft_p50_s", &replay::replay_result::ttft_p50_s},
    {"ttft_p90_s", &replay::replay_result::ttft_p90_s},
    {"ttft_p99_s", &replay::replay_result::ttft_p99_s},
    {"load_spread", &replay::replay_result::load_spread},
    {"load_spread_60s", &replay::replay_result::load_spread_60s},
    {"decision_us_p99", &replay::replay_result::decision_us_p99},
};

std::expected<replay::replay_result, std::string> run_seeds(const std::vector<replay::trace_request>& trace,
                                                            const arguments& given,
                                                            const std::string& policy) {
  replay::replay_result mean;
  for (int i = 0; i < given.seeds; ++i) {
    auto options = given.options;
    options.how.kind = k_policies.at(policy);
    options.seed = given.options.seed + static_cast<std::uint64_t>(i);
    progress_line line(fmt::format("{}, run {} of {}", policy, i + 1, given.seeds), trace.size());
    options.progress = std::ref(line);
    auto result = given.engine == "live" ? run_live_policy(trace, given.live, options, policy)
                                         : replay::run_replay(trace, options);
    if (!result) return result;
    for (const auto& f : k_figures) mean.*f.value += (*result).*f.value / given.seeds;
    if (i == 0) mean.ttft_s = std::move(result->ttft_s);
  }
  // Which replica took a request when is not known of a live run.
  if (given.engine == "live") mean.load_spread_60s = k_not_measured;
  return mean;
}

std::string to_json(const std::string& policy, const replay::replay_result& r) {
  std::string out = fmt::format("{{\"policy\": \"{}\"", policy);
  for (const auto& f : k_figures) {
    if (!std::isnan(r.*f.value)) out += fmt::format(", \"{}\": {:.6g}", f.name, r.*f.value);
  }
  return out + "}";
}

void print_table(const std::vector<std::string>& policies,
                 const std::vector<replay::replay_result>& results) {
  fmt::print("{:<14}{:>7}{:>10}{:>8}{:>10}{:>8}{:>8}{:>8}{:>8}{:>8}{:>10}\n", "policy", "hit", "predicted",
             "error", "TTFT mean", "p50", "p90", "p99", "spread", "in 60 s", "decision");
  for (std::size_t i = 0; i < policies.size(); ++i) {
    const auto& r = results[i];
    fmt::print(
        "{:<14}{:>6.1f}%{:>9.1f}%{:>7.2f}%{:>8.3f} s{:>6.2f} s{:>6.2f} s{:>6.2f} s{:>8.2f}{:>8}{:>7.0f} "
        "us\n",
        policies[i], 100 * r.hit_rate, 100 * r.predicted_hit_rate, 100 * r.prediction_error_mean,
        r.ttft_mean_s, r.ttft_p50_s, r.ttft_p90_s, r.ttft_p99_s, r.load_spread,
        std::isnan(r.load_spread_60s) ? "-" : fmt::format("{:.2f}", r.load_spread_60s), r.decision_us_p99);
  }
}

int refuse(const std::string& why) {
  std::fprintf(stderr, "weir-loadtest: %s\n", why.c_str());
  return k_exit_bad_arguments;
}

int write_plot(const arguments& given, std::vector<replay::replay_result>& results) {
  std::vector<replay::plotted_run> runs;
  for (std::size_t i = 0; i < results.size(); ++i) {
    runs.push_back({given.policies[i], std::move(results[i].ttft_s)});
  }
  std::ofstream out(given.svg);
  out << replay::ttft_plot(runs,
                           fmt::format("Requests with a first token within a time: {} replicas, {} retention",
                                       given.options.replicas, given.retention));
  out.close();
  return out ? 0 : refuse(fmt::format("--svg {}: cannot be written", given.svg));
}

int fail(const std::string& why) {
  std::fprintf(stderr, "weir-loadtest: %s\n", why.c_str());
  return k_exit_failures;
}

int execute(const CLI::App& command, arguments& given) {
  auto& options = given.options;
  const auto keeps = replay::to_retention(given.retention);
  options.knows.cache.keeps = *keeps;
  options.knows.source = k_sources.at(given.source);
  options.estimate = k_estimates.at(given.estimate);
  options.count = given.lengths == "blocks" ? replay::lengths::blocks : replay::lengths::tokens;
  options.sends_hints = *keeps == replay::retention_kind::value && !given.no_hints;
  const bool by_worth =
      *keeps == replay::retention_kind::value || *keeps == replay::retention_kind::frequency;
  if (by_worth && options.knows.source == replay::knowledge::simulated) {
    // What such replicas evict cannot be told from dispatches: they are replicas with events.
    options.knows.source = replay::knowledge::events;
  }
  if (given.engine == "live") {
    const auto checked = check_live(command, given.live, options, given.policies.size());
    if (!checked) return refuse(checked.error());
  }
  const auto trace = load(given);
  if (!trace) return refuse(trace.error());
  std::vector<replay::replay_result> results;
  for (const auto& policy : given.policies) {
    auto result = run_seeds(*trace, given, policy);
    if (!result) return fail(result.error());
    results.push_back(std::move(*result));
  }
  if (given.json) {
    std::string out;
    for (std::size_t i = 0; i < results.size(); ++i) {
      out += (i == 0 ? "" : ",\n ") + to_json(given.policies[i], results[i]);
    }
    std::printf(results.size() == 1 ? "%s\n" : "[%s]\n", out.c_str());
  } else {
    print_table(given.policies, results);
  }
  return given.svg.empty() ? 0 : write_plot(given, results);
}

template <class Map>
CLI::Validator one_of(const Map& map) {
  std::vector<std::string> names;
  for (const auto& [name, value] : map) names.push_back(name);
  return CLI::IsMember(names);
}

void add_fleet_options(CLI::App& command, arguments& given) {
  auto& options = given.options;
  auto& cache = options.knows.cache;
  command.add_option("--replicas", options.replicas)->check(CLI::Range(1, 512))->capture_default_str();
  command
      .add_option("--rate", options.blocks_per_s, "Blocks of 512 tokens that a replica prefills in a second")
      ->check(CLI::Range(1e-3, 1e6))
      ->capture_default_str();
  command.add_option("--retention", given.retention, "What a replica keeps")
      ->check(CLI::IsMember({"dense", "prompt-end", "second-sighting", "value", "frequency"}))
      ->capture_default_str();
  command.add_option("--capacity-tokens", cache.capacity_tokens, "Of a replica's cache")
      ->check(CLI::Range(std::int64_t{512}, std::int64_t{1} << 40))
      ->capture_default_str();
  command.add_option("--checkpoint-tokens", cache.checkpoint_tokens, "What one checkpoint takes of it")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30))
      ->capture_default_str();
  command
      .add_option("--lengths", given.lengths, "tokens: as the trace says; blocks: whole blocks, all reusable")
      ->check(CLI::IsMember({"tokens", "blocks"}))
      ->capture_default_str();
}

void add_router_options(CLI::App& command, arguments& given) {
  auto& options = given.options;
  command.add_option("--policy", given.policies, "One, or several to compare")
      ->delimiter(',')
      ->check(one_of(k_policies))
      ->capture_default_str();
  command
      .add_option("--pending-weight", options.how.pending_weight,
                  "Of policy cost: a token waiting against one of work")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command
      .add_option("--work-price", options.work_price, "Of balanced: a second of work, in seconds of waiting")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command
      .add_option("--credit", options.how.credit_share, "Of balanced: worth of a page without a checkpoint")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command.add_option("--hold-s", options.placement.hold_s, "Of balanced: prefill work a replica may hold")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command.add_option("--estimate", given.estimate, "What the router takes for reusable")
      ->check(one_of(k_estimates))
      ->capture_default_str();
  command.add_option("--source", given.source, "How the router knows what replicas hold")
      ->check(one_of(k_sources))
      ->capture_default_str();
  command
      .add_option("--capacity-believed", options.knows.capacity_believed,
                  "Factor on the capacity that a simulated index assumes")
      ->check(CLI::Range(0.01, 100.0))
      ->capture_default_str();
  command.add_flag("--no-hints", given.no_hints, "Tell replicas nothing about checkpoints");
}

}  // namespace

command add_replay_command(CLI::App& app) {
  auto given = std::make_shared<arguments>();
  auto* replay = app.add_subcommand("replay", "Replay a trace through a routing policy");
  replay->footer(k_footer);
  replay->add_option("--trace", given->trace, "FILE or generate:SEED")->required();
  replay->add_option("--requests", given->requests_max, "Only the first so many; 0: all")
      ->check(CLI::Range(0, 100'000'000))
      ->capture_default_str();
  replay->add_option("--engine", given->engine, "sim: virtual time; live: through a gateway")
      ->check(CLI::IsMember({"sim", "live"}))
      ->capture_default_str();
  add_fleet_options(*replay, *given);
  add_router_options(*replay, *given);
  add_live_options(*replay, given->live);
  replay->add_option("--seed", given->options.seed, "Of the first run")->capture_default_str();
  replay->add_option("--seeds", given->seeds, "Runs whose mean is printed")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  replay->add_flag("--json", given->json, "Print JSON instead of a table");
  replay->add_option("--svg", given->svg, "Write a plot of the comparison to this file");
  return {replay, [replay, given] { return execute(*replay, *given); }};
}

}  // namespace weir::loadtest
