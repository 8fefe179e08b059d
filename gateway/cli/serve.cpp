#include <cstdio>

#include "gateway/app.hpp"
#include "gateway/cli/commands.hpp"
#include "gateway/config/load.hpp"
#include "gateway/fleet.hpp"

namespace weir::gateway::cli {

namespace {

struct serve_options {
  std::filesystem::path config_file;
  bool check = false;
};

int check(const std::filesystem::path& file) {
  const auto loaded = config::load(file);
  if (!loaded) {
    std::fputs(config::to_text(loaded.error()).c_str(), stderr);
    std::fprintf(stderr, "%zu fault%s\n", loaded.error().size(), loaded.error().size() == 1 ? "" : "s");
    return k_bad_config;
  }
  if (const auto why = check_credentials(*loaded); !why.empty()) {
    std::fprintf(stderr, "%s: %s\n", file.c_str(), why.c_str());
    return k_bad_config;
  }
  const auto warning = config::warning_of(*loaded);
  if (!warning.empty()) std::fprintf(stderr, "%s: warning: %s\n", file.c_str(), warning.c_str());
  std::printf("%s is valid: %zu models on %zu targets, %zu keys\n", file.c_str(), loaded->models.size(),
              loaded->targets.size(), loaded->auth.keys.size());
  return k_ok;
}

}  // namespace

void add_serve(CLI::App& app, command& chosen) {
  auto options = std::make_shared<serve_options>();
  auto* serve = app.add_subcommand("serve", "Serve the OpenAI API as a configuration file says");
  serve->add_option("-c,--config", options->config_file, "Configuration file (YAML); see configs/README.md")
      ->required();
  serve->add_flag("--check", options->check,
                  "Only check the configuration: report every fault with file, line and key");
  serve->footer(
      "Signals: SIGTERM and SIGINT drain (running requests finish within limits.drain_grace_ms; a second "
      "signal ends at\n"
      "once), SIGHUP reloads the configuration, whole or not at all.");
  serve->callback([options, &chosen] {
    chosen = [options] {
      return options->check ? check(options->config_file) : serve_forever(options->config_file);
    };
  });
}

}  // namespace weir::gateway::cli
