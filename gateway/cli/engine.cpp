#include <fmt/format.h>
#include <boost/asio/ip/address.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "gateway/app.hpp"
#include "gateway/auth/key_store.hpp"
#include "gateway/auth/key_text.hpp"
#include "gateway/auth/private_file.hpp"
#include "gateway/cli/commands.hpp"
#include "gateway/cli/model_commands.hpp"
#include "gateway/cli/ranks.hpp"
#include "gateway/config/load.hpp"
#include "gateway/fleet_parts.hpp"

namespace weir::gateway::cli {

namespace {

constexpr const char* k_target = "engine";
constexpr std::int64_t k_tebibyte = 1LL << 40;

struct engine_options {
  std::filesystem::path model_dir;
  std::string name;
  std::string listen = "127.0.0.1:8000";
  std::string admin_listen = "127.0.0.1:0";
  std::filesystem::path api_key_file;
  std::string events;
  std::string replay;
  bool quiet = false;
  bool expert_series = false;
  config::engine_target_config engine;
  ranks_options ranks;
};

int refuse(std::string_view option, std::string_view what) {
  fmt::print(stderr, "weir engine: {}: {}\n", option, what);
  return k_bad_config;
}

// The folder's own name, however its path is written.
std::string name_of(const std::filesystem::path& dir) {
  std::error_code ec;
  auto whole = std::filesystem::weakly_canonical(dir, ec);
  return (ec ? dir : whole).filename().string();
}

// The option that sets what a fault of the configuration names: there is no file that has such a key.
std::string option_of(std::string_view key) {
  constexpr std::string_view k_engine = "targets[0].engine.";
  static constexpr std::pair<std::string_view, std::string_view> k_others[] = {
      {"targets[0].engine.model_dir", "--model"}, {"targets[0].engine", "--model"},
      {"models[0].name", "--served-model-name"},  {"listen", "--listen"},
      {"admin.listen", "--admin-listen"},         {"admin", "--admin-listen"}};
  for (const auto& [known, option] : k_others) {
    if (key == known) return std::string(option);
  }
  if (!key.starts_with(k_engine)) return std::string(key);
  std::string option = "--" + std::string(key.substr(k_engine.size()));
  std::replace(option.begin(), option.end(), '_', '-');
  return option;
}

// Past events one port higher, as vLLM's examples have it; a free one where the first is free too. Nothing
// behind the last port.
std::string replay_beside(const std::string& events) {
  const auto colon = events.rfind(':');
  if (colon == std::string::npos) return {};
  unsigned port = 0;
  const char* const end = events.data() + events.size();
  const auto [stop, ec] = std::from_chars(events.data() + colon + 1, end, port);
  const bool fixed = ec == std::errc() && stop == end && port > 0;
  if (fixed && port >= 65535) return {};
  return fmt::format("{}:{}", events.substr(0, colon), fixed ? port + 1 : 0);
}

// Their prompts' tokens go out in clear, so only where somebody said so.
std::string fault_of_endpoint(const std::string& endpoint) {
  constexpr std::string_view k_scheme = "tcp://";
  const auto address =
      endpoint.starts_with(k_scheme) ? config::read_address(endpoint.substr(k_scheme.size())) : std::nullopt;
  return address ? "" : fmt::format("'{}' is not tcp://ADDRESS:PORT (tcp://127.0.0.1:5557)", endpoint);
}

// What the file holds opens, for as long as this process lives; nobody else knows the secret.
std::string take_key(const std::filesystem::path& file, config::auth_config& out) {
  const auto key = auth::read_private_file(file, auth::k_key_bytes_max);
  if (!key) return key.error();
  const bool odd = std::any_of(key->begin(), key->end(), [](char c) { return c <= ' ' || c > '~'; });
  if (key->empty() || odd) return fmt::format("{}: holds no key: one line, printable ASCII", file.string());
  out.secret = auth::generate_key("");
  out.keys.push_back({.name = k_target,
                      .tenant = k_target,
                      .digest = auth::to_hex(auth::key_digest(out.secret, *key)),
                      .terms = {},
                      .at = {}});
  return {};
}

// The target as one of `place`'s ranks has it.
config::target_config& take_place(config::target_config& target, const engine::ranks_config& place) {
  target.engine.rank = place.rank;
  target.engine.ranks = place.size;
  target.engine.local_rank = place.local_rank;
  target.engine.master_host = place.master_host;
  target.engine.master_port = place.master_port;
  return target;
}

int run(const config::gateway_config& valid, const ranks_options& ranks) {
  config::gateway_config config = valid;
  config::target_config& target = config.targets.front();
  return run_ranks(
      ranks,
      {.name = "engine",
       .check =
           [&](const engine::ranks_config& place) {
             return engine::engine::check_before_load(to_engine_config(take_place(target, place)).engine);
           },
       .lead =
           [&](const engine::ranks_config& place) {
             take_place(target, place);
             return serve_forever(config);
           },
       .follow =
           [&](const engine::ranks_config& place) {
             return engine::engine::follow(to_engine_config(take_place(target, place)).engine);
           }});
}

int serve(const engine_options& options) {
  config::gateway_config config;
  for (const auto& [option, text, out] :
       {std::tuple("--listen", &options.listen, &config.listen),
        std::tuple("--admin-listen", &options.admin_listen, &config.admin)}) {
    const auto address = config::read_address(*text);
    if (!address) return refuse(option, fmt::format("'{}' is not ADDRESS:PORT (127.0.0.1:8000)", *text));
    std::tie(out->address, out->port) = *address;
  }
  config.auth.loopback_open = options.api_key_file.empty();
  if (!options.api_key_file.empty()) {
    if (const auto wrong = take_key(options.api_key_file, config.auth); !wrong.empty()) {
      return refuse("--api-key-file", wrong);
    }
  }
  boost::system::error_code ec;
  const auto api = boost::asio::ip::make_address(config.listen.address, ec);
  if (!ec && !api.is_loopback() && config.auth.keys.empty()) {
    return refuse("--listen",
                  fmt::format("{} is reached by other machines: name an --api-key-file, or listen "
                              "on 127.0.0.1",
                              config.listen.address));
  }
  config.replica = {.on = true, .events = options.events, .replay = options.replay};
  if (!options.events.empty() && options.replay.empty()) {
    config.replica.replay = replay_beside(options.events);
    if (config.replica.replay.empty() && fault_of_endpoint(options.events).empty()) {
      return refuse("--kv-events-listen", "no port is higher: name --kv-replay-listen too");
    }
  }
  for (const auto& [option, text] : {std::pair("--kv-events-listen", &config.replica.events),
                                     std::pair("--kv-replay-listen", &config.replica.replay)}) {
    if (text->empty()) continue;
    if (const auto wrong = fault_of_endpoint(*text); !wrong.empty()) return refuse(option, wrong);
  }
  if (options.events.empty() && !options.replay.empty()) {
    return refuse("--kv-replay-listen", "answers for what --kv-events-listen publishes: name that too");
  }
  config.log.access = !options.quiet;
  config::target_config target{
      .name = k_target, .engine = options.engine, .expert_series = options.expert_series};
  target.engine.model_dir = options.model_dir;
  target.engine.split = options.ranks.split;
  config.targets.push_back(std::move(target));
  config::model_config model;
  model.name = options.name.empty() ? name_of(options.model_dir) : options.name;
  model.targets = {k_target};
  config.models.push_back(std::move(model));
  const auto faults = config::validate(config, {}, true);
  for (const auto& fault : faults) refuse(option_of(fault.key), fault.message);
  return faults.empty() ? run(config, options.ranks) : k_bad_config;
}

void add_engine_options(CLI::App& app, config::engine_target_config& out) {
  const auto number = [&](const char* name, std::int64_t& to, std::int64_t least, std::int64_t most,
                          const char* what) {
    app.add_option(name, to, what)->check(CLI::Range(least, most))->capture_default_str();
  };
  app.add_option("--kv-bytes", out.kv_bytes,
                 "One pool for attention pages, recurrent states and the cache (as 4GiB)")
      ->transform(byte_size(std::int64_t{1} << 16, k_tebibyte))
      ->capture_default_str();
  number("--sequences", out.sequences, 1, 65536, "Sequences running at once");
  number("--queue", out.queue, 1, 1'000'000, "Sequences waiting beyond these; then 503");
  number("--threads", out.threads, 0, 256, "Compute threads; 0: cores - 1");
  number("--step-tokens", out.step_tokens, 1, 1 << 20, "Token budget of one step; at least --sequences");
  app.add_option("--decode-stretch", out.decode_stretch,
                 "While answers are written, prompts may make steps so many times longer; 0: no limit")
      ->check(finite_range(0, 100))
      ->capture_default_str();
  number("--unit-tokens", out.unit_tokens, 1, 4096,
         "Prompts are compared, and events told, in units of so many");
  number(
      "--spacing-tokens", out.spacing_tokens, 0, 1 << 24,
      "Also a checkpoint every so many tokens, a multiple of --unit-tokens; 0: at prompt ends and junctions");
  add_backend_option(app, out.backend);
  add_weights_option(app, out.weights);
  add_activations_option(app, out.activations);
}

}  // namespace

void add_engine(CLI::App& app, command& chosen) {
  auto options = std::make_shared<engine_options>();
  options->model_dir = find_bundled_model();
  auto* sub =
      app.add_subcommand("engine", "Serve a model from the embedded engine alone, as a replica for others");
  sub->add_option("-m,--model", options->model_dir, "Checkpoint folder; default: the bundled weir-tiny");
  sub->add_option("--served-model-name", options->name, "What clients call it; default: the folder's name");
  sub->add_option("--listen", options->listen, "Of the OpenAI API, GET /metrics and /health")
      ->capture_default_str();
  sub->add_option("--admin-listen", options->admin_listen,
                  "Of probes, explain and GET /metrics without a key; loopback alone; port 0: a free one")
      ->capture_default_str();
  sub->add_option("--api-key-file", options->api_key_file,
                  "The key that callers send, one line, 0600; needed beyond loopback");
  sub->add_option("--kv-events-listen", options->events, "Publish KV events at tcp://ADDRESS:PORT");
  sub->add_option("--kv-replay-listen", options->replay, "Answer for past ones; default: one port higher");
  sub->add_flag("--no-access-log", options->quiet, "No line per request on standard error");
  sub->add_flag("--expert-series", options->expert_series,
                "Metrics of each expert of each layer, where these are at most 32768; else of each layer");
  add_engine_options(*sub, options->engine);
  add_ranks_options(*sub, options->ranks);
  sub->footer(
      "It speaks to its callers as vLLM does: a request's cache_salt keeps its prompts apart from those of "
      "other\n"
      "salts, requests without one share theirs. Salts take turns, so that one's many or long prompts do not "
      "hold up\n"
      "another's; requests of one salt, and all without one, wait for one another. GET /metrics (with the "
      "key, where there is one) has vllm:* "
      "names;\n"
      "KV events go over ZeroMQ. They hold the prompts' tokens, unencrypted: only on a network of your "
      "own.\n\n"
      "Example, two replicas and a weir in front:\n"
      "  weir engine -m DIR --listen 127.0.0.1:8001 --kv-events-listen tcp://127.0.0.1:5557\n"
      "  weir engine -m DIR --listen 127.0.0.1:8002 --kv-events-listen tcp://127.0.0.1:5567\n"
      "  weir serve --config F    with targets as configs/ROUTING.md shows them for a weir engine\n\n"
      "Ranks compute one model together, each with its part of the weights and its own --kv-bytes and "
      "--threads (0: cores /\n"
      "ranks). Where one ends, all requests do, with an error; GET /health says 503 and why, and rank 0 ends "
      "with code 1:\n"
      "  weir engine -m DIR --ranks 4 --split expert\n"
      "  torchrun --no-python --nproc-per-node 4 weir engine -m DIR    or mpirun -n 4 ..., srun -n 4 ...\n\n"
      "Signals: SIGTERM and SIGINT drain, as with 'weir serve'; other ranks leave them to rank 0.");
  sub->callback([options, &chosen] { chosen = [options] { return serve(*options); }; });
}

}  // namespace weir::gateway::cli
