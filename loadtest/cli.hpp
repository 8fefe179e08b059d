// The subcommands of weir-loadtest: each adds its options to the app and hands back what runs it.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace weir::loadtest {

inline constexpr int k_exit_failures = 1;
inline constexpr int k_exit_bad_arguments = 2;

struct command {
  CLI::App* app = nullptr;
  std::function<int()> run;  // the exit code
};

command add_run_command(CLI::App& app);
command add_mock_command(CLI::App& app);
command add_chaos_command(CLI::App& app);
command add_bench_command(CLI::App& app);
command add_replay_command(CLI::App& app);

}  // namespace weir::loadtest
