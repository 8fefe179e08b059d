#include <sys/resource.h>

#include <csignal>
#include <exception>

#include "engine/cuda/cuda_backend.hpp"
#include "gateway/cli/commands.hpp"
#include "gateway/heap.hpp"
#include "gateway/version.hpp"

namespace {

// Each stream takes two descriptors; the soft limit of most shells is far below what the system allows.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace weir::gateway;
  std::signal(SIGPIPE, SIG_IGN);
  weir::engine::cuda::link_backend();
  keep_freed_memory();
  raise_descriptor_limit();
  CLI::App app{
      "Weir: an OpenAI-compatible endpoint in front of the replicas of a large model, which serves the "
      "overflow itself."};
  app.footer(
      "Try it:\n"
      "  weir serve --config configs/quickstart.yaml    serve the bundled model on 127.0.0.1:8080\n"
      "  weir chat \"What is the capital of Kenya?\"      one answer in the terminal, no server needed\n"
      "  weir serve --config F --check                  report every fault of a configuration\n"
      "  weir engine --model DIR                        serve a model as a replica that others route to\n"
      "  weir explain request.json                      where a running weir would send it, and why\n"
      "  weir costs --example > costs.yaml              should we host the model, or use an API?\n"
      "  weir compare --since 24h                       which target is cheaper, faster and more reliable\n"
      "Paths under /v1: chat/completions, completions, responses, embeddings, messages, "
      "messages/count_tokens,\n"
      "tokenize, models.\n"
      "Exit codes: 0 done, 1 failed, 2 bad configuration or arguments, 3 a drain cut running requests.");
  app.set_version_flag("--version", std::string("weir ") + k_version);
  app.require_subcommand(1);
  cli::command chosen;
  cli::add_serve(app, chosen);
  cli::add_engine(app, chosen);
  cli::add_chat(app, chosen);
  cli::add_model(app, chosen);
  cli::add_keys(app, chosen);
  cli::add_explain(app, chosen);
  cli::add_costs(app, chosen);
  cli::add_compare(app, chosen);
  try {
    app.parse(argc, argv);
    return chosen();
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? cli::k_ok : cli::k_bad_config;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "weir: %s\n", e.what());
    return cli::k_failed;
  }
}
