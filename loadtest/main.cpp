#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "loadtest/cli.hpp"

int main(int argc, char** argv) {
  namespace loadtest = weir::loadtest;
  CLI::App app{"Load, stand-ins and faults for gateways and servers that speak OpenAI's wire."};
  app.footer("weir-loadtest COMMAND --help says what a command does, with examples.");
  app.require_subcommand(1);
  const loadtest::command commands[] = {loadtest::add_run_command(app), loadtest::add_mock_command(app),
                                        loadtest::add_chaos_command(app), loadtest::add_bench_command(app),
                                        loadtest::add_replay_command(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : loadtest::k_exit_bad_arguments;
  }
  try {
    for (const auto& command : commands) {
      if (command.app->parsed()) return command.run();
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "weir-loadtest: %s\n", e.what());
  }
  return loadtest::k_exit_failures;
}
