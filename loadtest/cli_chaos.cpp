#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>

#include "loadtest/chaos/proxy.hpp"
#include "loadtest/cli.hpp"

namespace weir::loadtest {

namespace {

struct act_option {
  const char* name;
  chaos::act kind;
  const char* what;
};

constexpr act_option k_act_options[] = {
    {"--reset-at", chaos::act::reset, "RST to both sides after K bytes to the client"},
    {"--reset-request-at", chaos::act::reset_request, "RST to both sides after K bytes to the server"},
    {"--half-close-at", chaos::act::half_close,
     "FIN to the client after K bytes to it; its own bytes still go through"},
    {"--black-hole-at", chaos::act::black_hole,
     "After K bytes to the client pass nothing on, keep the sockets open"},
    {"--garble-at", chaos::act::garble, "Turn all bits of byte K to the client"},
    {"--add-at", chaos::act::add, "Put 8 random bytes in after K bytes to the client"},
};

struct arguments {
  chaos::chaos_options options;
  std::optional<std::uint64_t> at[std::size(k_act_options)];
  bool refuse = false;
  std::string schedule = "fixed";
};

constexpr const char* k_footer =
    R"(
An act takes place once K bytes were passed on in its direction; with K = 0, when the first byte arrives
there. A refused connection is one that is reset before any byte. --delay-ms, --jitter-ms, --rate-bytes-per-s
and the pieces apply to every connection in both directions, the acts to the share of the connections.
With --schedule random each of these connections gets one act of a random kind (reset, reset-request,
half-close, black-hole, garble, add, refuse) at a random byte between --k-min and --k-max, the same for the
same seed and order of connections.

The first line of output is "listening on ADDRESS:PORT". SIGUSR1 freezes all forwarding (bytes stay in the
sockets, nothing is closed), SIGUSR2 resumes it. SIGTERM or SIGINT ends it with a summary on standard error,
with exit code 0.

Examples:
  weir-loadtest chaos --to 127.0.0.1:9000 --reset-at 345            a replica that dies in mid-stream
  weir-loadtest chaos --to 127.0.0.1:9000 --piece-bytes 1 --piece-gap-ms 0.2
  weir-loadtest chaos --to 127.0.0.1:9000 --schedule random --share 0.1 --seed 7 --verbose
  weir-loadtest chaos --to 127.0.0.1:9000 --delay-ms 50 --rate-bytes-per-s 10000    a slow link
)";

int execute(arguments& given) {
  auto& options = given.options;
  for (std::size_t i = 0; i < std::size(k_act_options); ++i) {
    if (given.at[i]) options.acts.push_back({k_act_options[i].kind, *given.at[i]});
  }
  if (given.refuse) options.acts.push_back({chaos::act::refuse, 0});
  options.random_schedule = given.schedule == "random";
  const auto served = chaos::proxy(options);
  if (served) return 0;
  std::fprintf(stderr, "weir-loadtest: %s\n", served.error().c_str());
  return k_exit_bad_arguments;
}

void add_link_options(CLI::App& command, chaos::chaos_options& options) {
  command.add_option("--listen", options.listen, "ADDRESS:PORT; port 0 takes a free one")
      ->capture_default_str();
  command.add_option("--to", options.to, "HOST:PORT of the server")->required();
  command.add_option("--delay-ms", options.delay_ms, "Wait before passing on what one read gave")
      ->check(CLI::Range(0.0, 1e8));
  command.add_option("--jitter-ms", options.jitter_ms, "Up to this is added to each delay")
      ->check(CLI::Range(0.0, 1e8));
  command.add_option("--rate-bytes-per-s", options.rate_bytes_per_s, "Of each direction; 0 is unlimited");
  command.add_option("--piece-bytes", options.piece_bytes, "Most bytes of one send; 0 is as they come");
  command.add_option("--piece-gap-ms", options.piece_gap_ms, "Wait between pieces")
      ->check(CLI::Range(0.0, 1e6));
}

}  // namespace

command add_chaos_command(CLI::App& app) {
  const auto given = std::make_shared<arguments>();
  auto& options = given->options;
  auto* command = app.add_subcommand("chaos", "A TCP proxy that delays, cuts, resets, garbles, freezes");
  command->footer(k_footer);
  add_link_options(*command, options);
  for (std::size_t i = 0; i < std::size(k_act_options); ++i)
    command->add_option(k_act_options[i].name, given->at[i], k_act_options[i].what);
  command->add_option("--add-at-end", options.add_at_end, "Text sent to the client before the server's FIN");
  command->add_flag("--refuse", given->refuse, "Reset connections before any byte");
  command->add_option("--share", options.share, "Of the connections that the acts apply to")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command->add_option("--schedule", given->schedule, "fixed: the acts named here; random: one drawn for each")
      ->check(CLI::IsMember({"fixed", "random"}))
      ->capture_default_str();
  command->add_option("--k-min", options.k_min, "Of a drawn act's byte")->capture_default_str();
  command->add_option("--k-max", options.k_max, "Of a drawn act's byte")->capture_default_str();
  command->add_option("--seed", options.seed, "Of shares, the schedule, jitter and added bytes")
      ->capture_default_str();
  command->add_flag("--verbose", options.verbose, "Say on standard error what is done to each connection");
  return {command, [given] { return execute(*given); }};
}

}  // namespace weir::loadtest
