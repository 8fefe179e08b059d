// The part of `replay` that goes through a running gateway: its options and one run.
#pragma once

#include <cstddef>
#include <expected>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "loadtest/replay/live.hpp"

namespace CLI {
class App;
}

namespace weir::loadtest {

struct live_arguments {
  std::string url;  // empty: mocks and a gateway are started
  std::string admin_url;
  std::string model;
  std::filesystem::path key_file;
  std::filesystem::path gateway;  // the program; empty: weir beside this one
  std::filesystem::path tokenizer;
  double speed = 10;
};

void add_live_options(CLI::App& command, live_arguments& given);

// What of the command line does not go with --engine live, as a sentence.
std::expected<void, std::string> check_live(const CLI::App& command, const live_arguments& given,
                                            const replay::replay_options& options, std::size_t policies);

// One run by the policy of this name. Says on standard error when it could not keep the trace's pace.
std::expected<replay::replay_result, std::string> run_live_policy(
    std::span<const replay::trace_request> trace, const live_arguments& given,
    const replay::replay_options& options, const std::string& policy);

}  // namespace weir::loadtest
