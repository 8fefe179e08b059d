#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <memory>

#include "loadtest/cli.hpp"
#include "loadtest/mock/server.hpp"

namespace weir::loadtest {

namespace {

struct arguments {
  mock::mock_options options;
  std::vector<std::string> faults;
  std::string retention = "dense";
  std::string flavor = "vllm";
  std::string form = "vllm-map";
};

constexpr const char* k_footer_start =
    R"(Routes: POST /v1/chat/completions and /v1/completions (n = 1; stream or not), GET /v1/models, /health,
/metrics (vLLM's names, or SGLang's and GET /v1/loads with --flavor sglang; and mock_requests_total,
mock_malformed_requests_total, mock_aborted_total, mock_faults_total, mock_connections_open,
mock_connections_total).

The first line of output is "listening on http://ADDRESS:PORT". SIGTERM or SIGINT ends it with exit code 0.
Tokens read " tok0", " tok1", ... so that loss and reordering show; with --echo they are the last user message
or the prompt, cut into pieces of --token-bytes (at least 4). A request's max_tokens or max_completion_tokens
sets how many. prompt_tokens is the body's size / 4. A request that breaks HTTP is answered 400 and counted.

Any option of "A replica in earnest" makes times and cached_tokens true: prefills run one after another at
their rate, cached prefixes cost nothing, and the cache keeps --capacity-tokens of pages and checkpoints by
--retention:
  dense            every page can be resumed at; no checkpoints
  prompt-end       a checkpoint where each prompt ends
  second-sighting  also where two prompts part, once the second is seen
  interval:N       also at each multiple of N tokens
  value            as second-sighting; what is evicted first saves the least per token that it takes
A chat's canonical text is, for each message, its role, a line feed, its text, a line feed; every 4 bytes of
it are one token, their little-endian number without the top bit. A prompt given as an array of ids is taken
as it is. cache_salt keeps caches apart. The whole blocks of all tokens but the last are kept.
POST /reset_prefix_cache (/flush_cache) empties the cache. KV events: groups 0 to 2 mamba and 3 mla_attention,
or 0 full_attention when dense; SGLang's have no groups and tell of no checkpoints.

Examples:
  weir-loadtest mock --listen 127.0.0.1:9000                       as fast as it can, as a benchmark's floor
  weir-loadtest mock --ttft-ms 200 --itl-ms 20 --jitter 0.1        the pace of an engine
  weir-loadtest mock --prefill-tokens-per-s 7168 --decode-ms 20 --capacity-tokens 2560000 --block-tokens 512 \
    --retention second-sighting --checkpoint-tokens 16253 --kv-events tcp://127.0.0.1:5557 \
    --kv-replay tcp://127.0.0.1:5558                               a replica of a hybrid model
  weir-loadtest mock --fault reset-mid-stream:0.1 --fault status-503:0.05 --seed 7
  curl -s localhost:9000/v1/completions -d '{"prompt":"x","mock_fault":"short-body"}'

Faults, for --fault KIND[:SHARE], the request header x-mock-fault and the body field "mock_fault" (a request's
own wish wins over the drawn one, the header over the field; mid is after half of the tokens or bytes):
)";

// The error is a sentence.
std::expected<void, std::string> take_retention(const std::string& text, truth::cache_rules& rules) {
  constexpr std::string_view k_interval = "interval:";
  rules.dense = text == "dense";
  rules.second_sighting = text != "prompt-end";
  rules.eviction = text == "value" ? truth::eviction_order::value : truth::eviction_order::lru;
  if (rules.dense || text == "prompt-end" || text == "second-sighting" || text == "value") return {};
  if (!text.starts_with(k_interval)) return std::unexpected("--retention: no mode is named " + text);
  std::int64_t tokens = 0;
  const auto* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data() + k_interval.size(), last, tokens);
  if (error != std::errc{} || end != last || tokens < rules.page_tokens || tokens % rules.page_tokens != 0)
    return std::unexpected("--retention: an interval is a multiple of --block-tokens");
  rules.interval_pages = tokens / rules.page_tokens;
  return {};
}

int execute(arguments& given) {
  const auto retention = take_retention(given.retention, given.options.replica.cache);
  if (!retention) {
    std::fprintf(stderr, "weir-loadtest: %s\n", retention.error().c_str());
    return k_exit_bad_arguments;
  }
  given.options.flavor = given.flavor == "sglang" ? mock::engine_flavor::sglang : mock::engine_flavor::vllm;
  given.options.replica.form = given.form == "sglang"       ? mock::kv_form::sglang
                               : given.form == "vllm-array" ? mock::kv_form::vllm_array
                                                            : mock::kv_form::vllm_map;
  given.options.replica.events.seed = given.options.seed;
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

void add_truth_options(CLI::App& command, arguments& given) {
  constexpr const char* k_group = "A replica in earnest";
  auto& replica = given.options.replica;
  const auto truth = [&replica](CLI::Option* option) {
    return option->group(k_group)->each([&replica](const std::string&) { replica.is_on = true; });
  };
  truth(command.add_option("--prefill-tokens-per-s", replica.prefill_tokens_per_s,
                           "0: a prefill takes no time"))
      ->check(CLI::Range(0.0, 1e9));
  truth(command.add_option("--decode-ms", replica.decode_ms, "From token to token"))
      ->check(CLI::Range(0.0, 1e6));
  truth(command.add_option("--decode-per-request-ms", replica.decode_per_request_ms,
                           "More for each running request"))
      ->check(CLI::Range(0.0, 1e6));
  truth(command.add_option("--batch", replica.batch, "Requests that run at once"))
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  truth(command.add_option("--capacity-tokens", replica.cache.capacity_tokens, "Of the cache"))
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->capture_default_str();
  truth(command.add_option("--block-tokens", replica.cache.page_tokens, "Of a page"))
      ->check(CLI::Range(1, 1 << 22))
      ->capture_default_str();
  truth(command.add_option("--checkpoint-tokens", replica.cache.checkpoint_tokens, "What a checkpoint takes"))
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  truth(command.add_option("--retention", given.retention, "Of checkpoints, see below"))
      ->capture_default_str();
  command
      .add_flag("--accept-hints", replica.accepts_hints, "Keep checkpoints at the body's weir_checkpoint_at")
      ->group(k_group);
}

void add_event_options(CLI::App& command, arguments& given) {
  constexpr const char* k_group = "KV events";
  auto& replica = given.options.replica;
  command.add_option("--flavor", given.flavor, "Whose metrics and routes")
      ->check(CLI::IsMember({"vllm", "sglang"}))
      ->capture_default_str();
  command
      .add_option("--state-slots", given.options.state_slots,
                  "Slots of recurrent state in SGLang's metrics, one for each request that runs")
      ->check(CLI::Range(1, 1 << 20));
  command
      .add_option("--kv-events", replica.events.endpoint,
                  "tcp://ADDRESS:PORT to publish at; port * takes a free one, printed on the second line")
      ->each([&replica](const std::string&) { replica.is_on = true; })
      ->group(k_group);
  command
      .add_option("--kv-replay", replica.events.replay_endpoint, "Where past batches are asked for, likewise")
      ->group(k_group);
  command.add_option("--kv-format", given.form, "Of the events")
      ->check(CLI::IsMember({"vllm-map", "vllm-array", "sglang"}))
      ->capture_default_str()
      ->group(k_group);
  command.add_option("--kv-buffer", replica.events.kept_max, "Batches kept for replays")
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str()
      ->group(k_group);
  command.add_option("--kv-drop", replica.events.drop_share, "Of the batches that are not published, 0 to 1")
      ->check(CLI::Range(0.0, 1.0))
      ->group(k_group);
}

}  // namespace

command add_mock_command(CLI::App& app) {
  const auto given = std::make_shared<arguments>();
  auto* command =
      app.add_subcommand("mock", "A replica that speaks OpenAI's wire as vLLM does, with set faults");
  command->footer(k_footer_start + mock::fault_help());
  add_replica_options(*command, given->options);
  add_answer_options(*command, given->options);
  add_truth_options(*command, *given);
  add_event_options(*command, *given);
  command->add_option("--fault", given->faults, "KIND[:SHARE], repeatable; SHARE of the answers, default 1");
  return {command, [given] { return execute(*given); }};
}

}  // namespace weir::loadtest
