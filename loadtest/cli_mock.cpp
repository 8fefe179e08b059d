#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "loadtest/cli.hpp"
#include "loadtest/mock/server.hpp"

namespace weir::loadtest {

namespace {

struct arguments {
  mock::mock_options options;
  std::vector<std::string> faults;
};

constexpr const char* k_footer_start =
    R"(Routes: POST /v1/chat/completions and /v1/completions (n = 1; stream or not), GET /v1/models, /health,
/metrics (vLLM's names, and mock_requests_total, mock_malformed_requests_total, mock_aborted_total,
mock_faults_total, mock_connections_open, mock_connections_total).

The first line of output is "listening on http://ADDRESS:PORT". SIGTERM or SIGINT ends it with exit code 0.
Tokens read " tok0", " tok1", ... so that loss and reordering show; with --echo they are the last user message
or the prompt, cut into pieces of --token-bytes (at least 4). A request's max_tokens or max_completion_tokens
sets how many. prompt_tokens is the body's size / 4. A request that breaks HTTP is answered 400 and counted.

Examples:
  weir-loadtest mock --listen 127.0.0.1:9000                       as fast as it can, as a benchmark's floor
  weir-loadtest mock --ttft-ms 200 --itl-ms 20 --jitter 0.1        the pace of an engine
  weir-loadtest mock --fault reset-mid-stream:0.1 --fault status-503:0.05 --seed 7
  curl -s localhost:9000/v1/completions -d '{"prompt":"x","mock_fault":"short-body"}'

Faults, for --fault KIND[:SHARE], the request header x-mock-fault and the body field "mock_fault" (a request's
own wish wins over the drawn one, the header over the field; mid is after half of the tokens or bytes):
)";

int execute(arguments& given) {
  for (const auto& text : given.faults) {
    const auto parsed = mock::parse_fault_share(text);
    if (!parsed) {
      std::fprintf(stderr, "weir-loadtest: %s\n", parsed.error().c_str());
      return k_exit_bad_arguments;
    }
    given.options.faults.push_back(*parsed);
  }
  const auto served = mock::serve(given.options);
  if (served) return 0;
  std::fprintf(stderr, "weir-loadtest: %s\n", served.error().c_str());
  return k_exit_bad_arguments;
}

void add_replica_options(CLI::App& command, mock::mock_options& options) {
  command.add_option("--listen", options.listen, "ADDRESS:PORT; port 0 takes a free one")
      ->capture_default_str();
  command.add_option("--threads", options.threads, "Each with its own connections")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command.add_option("--model", options.model, "Name in /v1/models")->capture_default_str();
  command.add_flag("--strict-model", options.strict_model, "Answer any other model name with 404");
  command.add_option("--context", options.context, "max_model_len in /v1/models")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  command.add_option("--api-key", options.api_key, "Bearer token that /v1 asks for, else 401");
  command
      .add_option("--keep-alive-ms", options.keep_alive_ms,
                  "An idle connection is closed after, as uvicorn does")
      ->check(CLI::Range(1, 86'400'000))
      ->capture_default_str();
}

void add_answer_options(CLI::App& command, mock::mock_options& options) {
  command.add_option("--ttft-ms", options.ttft_ms, "Wait before the first token")
      ->check(CLI::Range(0.0, 1e8));
  command.add_option("--itl-ms", options.itl_ms, "Wait before each further token")
      ->check(CLI::Range(0.0, 1e8));
  command.add_option("--jitter", options.jitter, "Share by which each wait differs, 0 to 1")
      ->check(CLI::Range(0.0, 1.0));
  command.add_option("--seed", options.seed, "Of jitter, drawn faults and ids")->capture_default_str();
  command.add_option("--tokens", options.tokens, "Of an answer whose request sets no maximum")
      ->check(CLI::Range(std::int64_t{1}, mock::k_tokens_max))
      ->capture_default_str();
  command.add_option("--token-bytes", options.token_bytes, "Pad each token's text to this")
      ->check(CLI::Range(0, 1 << 20));
  command.add_option("--burst", options.burst, "Events in one send when --itl-ms is 0")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command
      .add_option("--reply-bytes", options.reply_bytes, "Pad the text of an answer that is no stream to this")
      ->check(CLI::Range(0, 256 << 20));
  command.add_option("--cached-share", options.cached_share, "Of the prompt tokens that count as cached")
      ->check(CLI::Range(0.0, 1.0));
  command.add_flag("--echo", options.echo, "Answer with the last user message or the prompt");
}

}  // namespace

command add_mock_command(CLI::App& app) {
  const auto given = std::make_shared<arguments>();
  auto* command =
      app.add_subcommand("mock", "A replica that speaks OpenAI's wire as vLLM does, with set faults");
  command->footer(k_footer_start + mock::fault_help());
  add_replica_options(*command, given->options);
  add_answer_options(*command, given->options);
  command->add_option("--fault", given->faults, "KIND[:SHARE], repeatable; SHARE of the answers, default 1");
  return {command, [given] { return execute(*given); }};
}

}  // namespace weir::loadtest
