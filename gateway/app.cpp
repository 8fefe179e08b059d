#include "gateway/app.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <thread>
#include <utility>

#include "gateway/api/dispatcher.hpp"
#include "gateway/cli/commands.hpp"
#include "gateway/config/load.hpp"
#include "gateway/heap.hpp"
#include "gateway/http/server.hpp"
#include "gateway/kv_events/publisher.hpp"
#include "gateway/observe/log.hpp"
#include "gateway/reload.hpp"
#include "gateway/version.hpp"

namespace weir::gateway {

namespace {

constexpr timespec k_tick{.tv_sec = 1, .tv_nsec = 0};  // gauges are refreshed, retired engines let go
constexpr int k_fault_ticks = 2;  // for which a replica that can do nothing says why to who asks
constexpr std::int64_t k_fault_grace_ms = 500;  // then, for answers under way

std::string base_url(const config::listen_config& listen, std::uint16_t port) {
  const bool v6 = listen.address.find(':') != std::string::npos;
  const char* scheme = listen.tls.cert_file.empty() ? "http" : "https";
  return fmt::format("{}://{}{}{}:{}", scheme, v6 ? "[" : "", listen.address, v6 ? "]" : "", port);
}

http::listen_spec to_spec(const config::listen_config& listen, const config::limits_config& limits,
                          http::dispatcher& dispatcher) {
  http::listen_spec spec{.address = listen.address, .port = listen.port, .handler = &dispatcher};
  spec.settings.head_timeout = std::chrono::milliseconds(limits.head_timeout_ms);
  spec.settings.keep_alive_idle = std::chrono::milliseconds(limits.keep_alive_idle_ms);
  spec.settings.body_idle = std::chrono::milliseconds(limits.body_idle_timeout_ms);
  spec.settings.write_idle = std::chrono::milliseconds(limits.write_idle_timeout_ms);
  if (!listen.tls.cert_file.empty()) spec.tls = http::tls_files{listen.tls.cert_file, listen.tls.key_file};
  return spec;
}

http::server_options to_options(const config::gateway_config& config) {
  http::server_options options;
  options.thread_count = config.io_threads > 0 ? static_cast<std::size_t>(config.io_threads)
                                               : std::max(1U, std::thread::hardware_concurrency());
  options.connections_max = static_cast<std::size_t>(config.limits.connections);
  options.body_budget_bytes = static_cast<std::size_t>(config.limits.body_budget_bytes);
  return options;
}

void print_banner(const snapshot& snap, const std::string& api_url, const std::string& admin_url) {
  std::string models;
  for (const auto& model : snap.models) {
    models += (models.empty() ? "" : ", ") + model->name;
    if (model->context_tokens > 0) models += fmt::format(" (context {} tokens)", model->context_tokens);
  }
  const auto& first = snap.models.front()->name;
  const bool open = snap.config.auth.loopback_open;
  const std::string key = open ? "any" : "YOUR_KEY";
  const std::string header = open ? "" : " -H 'Authorization: Bearer YOUR_KEY'";
  fmt::print("weir {}\nlistening on {}\nadmin on {}\nmodels: {}\n", k_version, api_url, admin_url, models);
  for (const auto& [name, engine] : snap.engines) {
    const engine::model_info& of = engine.target->model();
    const bool narrow = of.activations == engine::activation_format::narrow;
    fmt::print("engine of '{}': backend {}{}, {} activations{}\n", name, engine::to_text(of.backend),
               of.device.empty() ? "" : " on " + of.device, narrow ? "narrow" : "float32",
               of.ranks > 1 ? fmt::format(", {} ranks", of.ranks) : "");
  }
  if (snap.events) {
    fmt::print("KV events at {}, replayed at {}\n", snap.events->endpoint(), snap.events->replay_endpoint());
  }
  fmt::print("\nTry it:\n  curl {}/v1/chat/completions{} -H 'Content-Type: application/json' \\\n", api_url,
             header);
  fmt::print(
      R"(    -d '{{"model":"{}","messages":[{{"role":"user","content":"What is the capital of Kenya?"}}]}}')",
      first);
  fmt::print("\n\n  from openai import OpenAI; print(OpenAI(base_url=\"{}/v1\", api_key=\"{}\")", api_url,
             key);
  fmt::print(R"(.chat.completions.create(model="{}", messages=[{{"role": "user", "content": "ping"}}]))",
             first);
  fmt::print(".choices[0].message.content)\n\nCtrl-C drains and stops.\n");
  std::fflush(stdout);
}

// A request that a target answers over HTTP takes two descriptors. main() has raised the soft limit.
void tell_descriptors(const config::gateway_config& config) {
  constexpr std::int64_t k_others = 256;  // files, listeners, probes
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const auto& targets = config.targets;
  const bool relays = std::any_of(targets.begin(), targets.end(), [](const auto& t) { return t.is_http; });
  const std::int64_t needed = config.limits.connections * (relays ? 2 : 1) + k_others;
  if (std::cmp_greater_equal(limit.rlim_cur, needed)) return;
  spdlog::warn(
      "limits.connections is {}, for which {} file descriptors are needed, and this process may open {}: "
      "raise "
      "its hard limit (ulimit -Hn, LimitNOFILE), or lower limits.connections; else clients beyond it are "
      "closed",
      config.limits.connections, needed, limit.rlim_cur);
}

// Before any thread exists: a thread that did not inherit the mask would take the signal and end the process.
sigset_t block_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int s : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, s);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return set;
}

// Until SIGTERM or SIGINT; SIGHUP reloads. Or until a replica's engine broke for good: then returns why.
std::string run_until_told(const sigset_t& signals, api::server_state& state, http::server& server,
                           reloader& reload, const http::byte_budget& replies, route::services& routing) {
  idle_trim memory;
  std::uint64_t requests_before = 0;
  for (int fault_ticks = 0;;) {
    const int signal = sigtimedwait(&signals, nullptr, &k_tick);
    const auto requests = state.metrics.requests_started();
    memory.tick(requests != requests_before || state.metrics.in_flight() > 0);
    requests_before = requests;
    state.metrics.set_connections(static_cast<double>(server.counters().connections_open.load()));
    state.metrics.set_refused(server.counters().refused.load(), server.counters().accept_failures.load());
    state.metrics.set_body_bytes(static_cast<double>(server.body_bytes_held()));
    state.metrics.set_reply_bytes(static_cast<double>(replies.used_bytes()));
    reload.sweep();
    routing.sweep();
    state.keys.rates.tick();
    state.keys.tick_traffic();
    if (signal == SIGHUP) {
      const bool applied = reload.run();
      const auto tls = applied ? server.reload_tls(0) : std::expected<void, std::string>{};
      if (!tls) spdlog::error("reload: the certificate stays as it was: {}", tls.error());
      state.metrics.reload_done(applied && tls.has_value());
    }
    if (signal == SIGTERM || signal == SIGINT) return {};
    if (auto fault = replica_fault(*state.snapshots.get());
        !fault.empty() && ++fault_ticks == k_fault_ticks) {
      return fault;
    }
  }
}

// Returns how many connections were cut. A second signal ends the process at once.
std::size_t drain(const sigset_t& signals, http::server& server, std::chrono::milliseconds grace) {
  auto cut = std::async(std::launch::async, [&server, grace] { return server.drain(grace); });
  constexpr timespec k_poll{.tv_sec = 0, .tv_nsec = 50'000'000};
  while (cut.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    const int signal = sigtimedwait(&signals, nullptr, &k_poll);
    if (signal != SIGTERM && signal != SIGINT) continue;
    std::fprintf(stderr, "weir: second signal, ending at once\n");
    std::_Exit(cli::k_streams_cut);
  }
  return cut.get();
}

// `config_file`: what a reload reads again; empty: nothing does.
int serve(const std::filesystem::path& config_file, const config::gateway_config& config) {
  const sigset_t signals = block_signals();
  api::server_state state;
  http::byte_budget replies(static_cast<std::size_t>(config.limits.stream_budget_bytes));
  observe::set_up_logs(config.log.level);
  auto routing = route::services::open(config.routing, state.metrics.route());
  if (!routing) {
    fmt::print(stderr, "weir: {}\n", routing.error());
    return cli::k_failed;
  }
  fleet_services services{state.metrics, replies, {}, std::move(*routing), state.keys};
  // Targets let go of the index before it ends.
  const struct last_snapshot {
    snapshot_holder& held;
    ~last_snapshot() { held.set(nullptr); }
  } last{state.snapshots};
  reloader reload(config_file, state.snapshots, services);
  for (const auto& target : config.targets) {
    if (target.is_http) {
      fmt::print(stderr, "target {} at {}\n", target.name, target.http.base_url);
    } else {
      fmt::print(stderr, "loading {} from {}\n", target.name, target.engine.model_dir.string());
    }
  }
  tell_descriptors(config);
  if (auto started = reload.start(config); !started) {
    fmt::print(stderr, "weir: {}\n", started.error());
    return cli::k_failed;
  }
  services.routing->open_store();
  state.shadows.keep_in(state.keys.money.get());
  api::endpoint_dispatcher api(state, config.replica.on ? api::replica_endpoints() : api::api_endpoints(),
                               api::listener::api);
  api::endpoint_dispatcher admin(state, api::admin_endpoints(), api::listener::admin);
  http::server server(to_options(config), [](std::string_view what) { spdlog::error("fault: {}", what); });
  const auto api_port = server.listen(to_spec(config.listen, config.limits, api));
  auto admin_spec = to_spec(config.admin, config.limits, admin);
  admin_spec.outlives_drain = true;
  const auto admin_port = server.listen(admin_spec);
  if (!api_port || !admin_port) {
    fmt::print(stderr, "weir: {}\n", (api_port ? admin_port : api_port).error());
    return cli::k_failed;
  }
  server.start();
  print_banner(*state.snapshots.get(), base_url(config.listen, api_port->port),
               base_url(config.admin, admin_port->port));
  const std::string fault = run_until_told(signals, state, server, reload, replies, *services.routing);
  if (!fault.empty()) fmt::print(stderr, "weir: the engine {}\n", fault);
  state.draining = true;
  state.shadows.cut();
  auto grace_ms = state.snapshots.get()->config.limits.drain_grace_ms;  // a reload may have changed it
  if (!fault.empty()) grace_ms = std::min(grace_ms, k_fault_grace_ms);
  fmt::print(stderr, "draining: {} connections, up to {} ms\n", server.counters().connections_open.load(),
             grace_ms);
  const auto cut = drain(signals, server, std::chrono::milliseconds(grace_ms));
  server.stop();
  state.shadows.close();
  services.routing->close_store();
  state.keys.stop_sharing();
  state.keys.rates.tick(true);
  state.keys.close();
  observe::flush_logs();
  fmt::print(stderr, "stopped, {} requests cut\n", cut);
  if (!fault.empty()) return cli::k_failed;
  return cut == 0 ? cli::k_ok : cli::k_streams_cut;
}

}  // namespace

int serve_forever(const std::filesystem::path& config_file) {
  const auto config = config::load(config_file);
  if (!config) {
    std::fputs(config::to_text(config.error()).c_str(), stderr);
    return cli::k_bad_config;
  }
  return serve(config_file, *config);
}

int serve_forever(const config::gateway_config& config) {
  return serve({}, config);
}

}  // namespace weir::gateway
