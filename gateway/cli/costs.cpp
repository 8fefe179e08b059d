#include <fmt/format.h>

#include <cstdio>
#include <fstream>

#include "gateway/cli/commands.hpp"
#include "gateway/config/load.hpp"
#include "gateway/costs/example.hpp"
#include "gateway/costs/read_inputs.hpp"
#include "gateway/costs/report.hpp"

namespace weir::gateway::cli {

namespace {

struct costs_options {
  std::filesystem::path file;
  std::filesystem::path html;
  bool json = false;
  bool example = false;
};

int refuse(const std::string& message, int code) {
  std::fprintf(stderr, "weir costs: %s\n", message.c_str());
  return code;
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
  costs::report report{.source = "inputs: " + options.file.string(), .in = std::move(*inputs), .out = {}};
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
  sub->footer(
      "Three answers that are kept apart, as they do not move together: what an accepted result costs on "
      "each "
      "side,\n"
      "which requests may not leave, and what running machines takes. An accepted result came within the "
      "latency\n"
      "contract, without an error or a retry. Self-hosting costs the same busy or idle, so it has a "
      "break-even "
      "load:\n"
      "  first time  the least load at which as many replicas as it needs are no dearer than the API\n"
      "  for good    from here on no load is dearer, not even where it makes one more replica necessary\n"
      "An input that is missing is named, and then the answer is the API: nothing is bought on a guess.\n\n"
      "Examples:\n"
      "  weir costs --example > costs.yaml           edit it, then\n"
      "  weir costs costs.yaml --html costs.html\n"
      "  weir costs configs/costs/kimi-k3.yaml       published prices and sizes; says what is yours to "
      "measure");
  sub->callback([options, &chosen] { chosen = [options] { return show_costs(*options); }; });
}

}  // namespace weir::gateway::cli
