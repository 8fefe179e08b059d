#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <expected>
#include <fstream>
#include <optional>

#include "gateway/admin/traffic_json.hpp"
#include "gateway/cli/admin_client.hpp"
#include "gateway/cli/commands.hpp"
#include "gateway/config/load.hpp"
#include "gateway/costs/example.hpp"
#include "gateway/costs/live.hpp"
#include "gateway/costs/read_inputs.hpp"
#include "gateway/costs/report.hpp"
#include "gateway/ledger/label_clock.hpp"
#include "gateway/ledger/traffic.hpp"

namespace weir::gateway::cli {

namespace {

constexpr std::int64_t k_since_max = 1'000'000;  // of any unit

constexpr const char* k_footer =
    R"(Three answers kept apart, as they do not move together: what an accepted result costs on each side,
which requests may not leave, and what running machines takes. An accepted result came within the latency
contract, without an error or a retry. Machines cost the same busy or idle, so there are break-even loads:
  first time  the least load at which as many replicas as it needs are no dearer than the API
  for good    from here on no load is dearer, not even where it makes one more replica necessary
An input that is missing is named, and then the answer is the API: nothing is bought on a guess.

Examples:
  weir costs --example > costs.yaml           edit it, then
  weir costs costs.yaml --html costs.html
  weir costs configs/costs/kimi-k3.yaml       published prices and sizes; says what is yours to measure
  weir costs costs.yaml --live --since 7d --admin-key-file /etc/weir/admin.key
  weir costs costs.yaml --live --ledger-dir /var/lib/weir/ledger)";

struct costs_options {
  std::filesystem::path file;
  std::filesystem::path html;
  bool json = false;
  bool example = false;
  bool live = false;
  admin_address at;
  std::filesystem::path ledger_dir;  // empty: a running weir is asked
  std::string model;                 // empty: all
  std::string since = "31d";
};

int refuse(const std::string& message, int code) {
  std::fprintf(stderr, "weir costs: %s\n", message.c_str());
  return code;
}

// "90m", "24h", "7d".
std::optional<std::int64_t> seconds_of(std::string_view text) {
  static constexpr std::pair<char, std::int64_t> k_units[] = {{'m', 60}, {'h', 3600}, {'d', 86'400}};
  std::int64_t count = 0;
  const char* const last = text.data() + text.size();
  const auto [end, ec] = std::from_chars(text.data(), last, count);
  if (ec != std::errc() || last - end != 1 || count < 1 || count > k_since_max) return std::nullopt;
  for (const auto& [unit, seconds] : k_units) {
    if (*end == unit) return count * seconds;
  }
  return std::nullopt;
}

std::expected<ledger::traffic_summary, admin_failure> seen_traffic(const costs_options& options) {
  const auto ago_s = seconds_of(options.since);
  if (!ago_s) {
    return std::unexpected(admin_failure{
        k_bad_config,
        fmt::format("--since {}: expected a time back from now, as 90m, 24h or 7d", options.since)});
  }
  const std::int64_t now_s = ledger::system_wall_s();
  const std::int64_t since_s = std::max<std::int64_t>(0, now_s - *ago_s);
  if (!options.ledger_dir.empty()) {
    const auto rows = ledger::read_traffic(options.ledger_dir);
    if (!rows) return std::unexpected(admin_failure{k_failed, rows.error()});
    return ledger::summarize(*rows, options.model, since_s, now_s);
  }
  auto path = fmt::format("/admin/v1/traffic?since={}", since_s);
  if (!options.model.empty()) path += "&model=" + path_segment(options.model);
  const auto answer = call_admin(options.at, boost::beast::http::verb::get, path);
  if (!answer) return std::unexpected(answer.error());
  auto seen = admin::traffic_from_json(*answer);
  if (seen) return std::move(*seen);
  return std::unexpected(admin_failure{k_failed, options.at.url + ": the answer is no traffic of a weir"});
}

// Nothing, or the exit code.
std::optional<int> take_live(const costs_options& options, costs::report& report) {
  const auto seen = seen_traffic(options);
  if (!seen) return refuse(seen.error().message, seen.error().exit_code);
  const auto where = options.ledger_dir.empty() ? options.at.url : options.ledger_dir.string();
  const auto which = options.model.empty() ? "all models" : "model " + options.model;
  report.live = fmt::format("{}, the last {}, {}", where, options.since, which);
  report.taken = costs::take_from_traffic(*seen, report.in);
  return std::nullopt;
}

int print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return k_ok;
  return refuse("standard output takes nothing", k_failed);
}

int write_html(const costs::report& report, const std::filesystem::path& file) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << costs::to_html(report);
  out.close();
  if (!out) return refuse(fmt::format("{}: cannot be written", file.string()), k_failed);
  std::fprintf(stderr, "wrote %s\n", file.c_str());
  return k_ok;
}

int show_costs(const costs_options& options) {
  if (options.example) return print(costs::example_yaml());
  if (options.file.empty()) {
    return refuse("name a file of inputs; 'weir costs --example > costs.yaml' makes one to fill in",
                  k_bad_config);
  }
  auto inputs = costs::load_inputs(options.file);
  if (!inputs) {
    std::fputs(config::to_text(inputs.error()).c_str(), stderr);
    return k_bad_config;
  }
  costs::report report{.source = "inputs: " + options.file.string(),
                       .in = std::move(*inputs),
                       .out = {},
                       .live = {},
                       .taken = {}};
  if (options.live) {
    if (const auto code = take_live(options, report)) return *code;
  }
  report.out = policy::economics::compare(report.in);
  if (!options.html.empty()) {
    if (const int code = write_html(report, options.html); code != k_ok) return code;
  }
  return print(options.json ? costs::to_json(report) + '\n' : costs::to_text(report));
}

}  // namespace

void add_costs(CLI::App& app, command& chosen) {
  auto options = std::make_shared<costs_options>();
  auto* sub = app.add_subcommand("costs", "Say whether to host a model or use an API, from your own numbers");
  sub->add_option("inputs", options->file, "File of inputs (YAML)");
  sub->add_flag("--example", options->example, "Print a file of inputs to fill in, with every key explained");
  sub->add_flag("--json", options->json, "Print the numbers as JSON");
  sub->add_option("--html", options->html,
                  "Also write a report with a plot: one file that needs nothing else");
  auto* live =
      sub->add_flag("--live", options->live,
                    "Take load, lengths, hit rates and accepted shares from what a gateway has seen");
  sub->add_option("--since", options->since, "Of traffic this long back: 90m, 24h, 7d; 31 days are kept")
      ->capture_default_str()
      ->needs(live);
  sub->add_option("--model", options->model, "Of this model's traffic alone")->needs(live);
  sub->add_option("--ledger-dir", options->ledger_dir,
                  "Read it from this ledger (auth.ledger_dir); otherwise the running weir at --url is asked")
      ->needs(live);
  add_admin_options(*sub, options->at);
  sub->footer(k_footer);
  sub->callback([options, &chosen] { chosen = [options] { return show_costs(*options); }; });
}

}  // namespace weir::gateway::cli
