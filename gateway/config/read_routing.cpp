#include "gateway/config/read_routing.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "policy/failover/attempts.hpp"

namespace weir::gateway::config {

namespace {

constexpr std::int64_t k_tokens_max = 1LL << 40;
constexpr std::int64_t k_milliseconds_max = 24LL * 3600 * 1000;
constexpr std::int64_t k_waiting_max = 65'536;  // each arrival in an overload looks at all
constexpr double k_usd_max = 1e9;
constexpr std::int64_t k_memory_bytes_max = 1LL << 50;
constexpr std::int64_t k_slots_max = 1LL << 24;
constexpr double k_usd_per_mtok_max = 1e6;

void read_match(map_reader& in, policy::rule_match& out) {
  in.text_list("models", out.models);
  in.text_list("tenants", out.tenants);
  in.text_list("keys", out.keys);
  in.integer("prompt_tokens_min", out.prompt_tokens_min, {0, k_tokens_max});
  in.integer("prompt_tokens_max", out.prompt_tokens_max, {1, k_tokens_max});
  in.maybe_flag("tools", out.tools);
  in.maybe_flag("images", out.images);
  if (out.prompt_tokens_max > 0 && out.prompt_tokens_max < out.prompt_tokens_min) {
    in.fail("prompt_tokens_max", "is below prompt_tokens_min");
  }
}

void read_tier(map_reader& in, price_tier_config& out) {
  in.maybe_number("fresh_usd_per_mtok", out.fresh_usd, 0, k_usd_per_mtok_max);
  in.maybe_number("cached_usd_per_mtok", out.cached_usd, 0, k_usd_per_mtok_max);
  in.maybe_number("cache_write_usd_per_mtok", out.cache_write_usd, 0, k_usd_per_mtok_max);
  in.maybe_number("output_usd_per_mtok", out.output_usd, 0, k_usd_per_mtok_max);
}

void read_prices(map_reader& in, std::vector<price_tier_config>& out) {
  price_tier_config base;
  read_tier(in, base);
  if (base != price_tier_config{}) out.push_back(base);
  in.map_list("tiers", [&](map_reader& m) {
    price_tier_config tier;
    m.integer("prompt_tokens_min", tier.prompt_tokens_min, {1, k_tokens_max});
    read_tier(m, tier);
    if (tier.prompt_tokens_min <= (out.empty() ? 0 : out.back().prompt_tokens_min)) {
      m.fail("prompt_tokens_min", "must be above that of the tier before");
    }
    out.push_back(tier);
  });
}

}  // namespace

void read_routing(map_reader& in, routing_config& out) {
  out.at = in.at();
  in.choice("policy", out.policy,
            {"balanced", "latency", "cost", "least_pending", "prefix_greedy", "round_robin", "random"});
  in.number("value_of_time_usd_per_hour", out.value_of_time_usd_per_hour, 0, k_usd_max);
  in.number("credit", out.credit, 0, 1);
  in.integer("hold_ms", out.hold_ms, {0, k_milliseconds_max});
  in.integer("hold_max_ms", out.hold_max_ms, {0, k_milliseconds_max});
  in.file_path("state_dir", out.state_dir);
  in.bytes("index_bytes", out.index_bytes, {16 << 20, 8LL << 30});
  in.bytes("prompt_memory_bytes", out.prompt_memory_bytes, {1 << 20, 1LL << 40});
  in.choice("sharing", out.sharing, {"tenant", "key", "site"});
}

void read_rule(map_reader& in, policy::rule& out) {
  in.text("name", out.name);
  in.map("when", [&](map_reader& when) { read_match(when, out.when); });
  in.text_list("allow", out.allow);
  in.text_list("forbid", out.forbid);
  std::int64_t ttft_ms = 0;
  std::int64_t itl_ms = 0;
  in.integer("ttft_ms", ttft_ms, {1, k_milliseconds_max});
  in.integer("itl_ms", itl_ms, {1, k_milliseconds_max});
  out.ttft_s = static_cast<double>(ttft_ms) / 1000;
  out.itl_s = static_cast<double>(itl_ms) / 1000;
  in.number("usd_max", out.cost_max_usd, 0, k_usd_max);
}

void read_cache(map_reader& in, cache_config& out) {
  out.on = true;
  in.integer("capacity_tokens", out.capacity_tokens, {1, k_tokens_max});
  in.integer("checkpoint_tokens", out.checkpoint_tokens, {0, 1LL << 30});
  in.integer("block_tokens", out.block_tokens, {1, 1LL << 20});
  in.choice("retention", out.retention, {"dense", "prompt_end", "second_sighting", "interval"});
  in.integer("interval_tokens", out.interval_tokens, {1, k_tokens_max});
  if ((out.retention == "interval") != (out.interval_tokens > 0)) {
    in.fail("interval_tokens", "goes with retention: interval");
  }
  in.text("events", out.events);
  in.text("replay", out.replay);
  in.text("topic", out.topic);
  if (out.events.empty() && !(out.replay.empty() && out.topic.empty())) {
    in.fail("events", "is missing: replay and topic belong to it");
  }
  for (const std::string_view key : {"events", "replay"}) {
    const auto& endpoint = key == "events" ? out.events : out.replay;
    if (endpoint.empty() || endpoint.starts_with("tcp://") || endpoint.starts_with("ipc://")) continue;
    in.fail(key, "expected tcp://HOST:PORT or ipc://PATH");
  }
  in.flag("salted", out.salted);
  in.flag("hints", out.hints);
}

void read_accounts(map_reader& in, accounts_config& out) {
  in.bytes("memory_bytes", out.memory_bytes, {1, k_memory_bytes_max});
  in.bytes("weights_bytes", out.weights_bytes, {1, k_memory_bytes_max});
  in.bytes("runtime_bytes", out.runtime_bytes, {0, k_memory_bytes_max});
  in.integer("state_slots", out.state_slots, {1, k_slots_max});
  in.bytes("state_bytes", out.state_bytes, {1, k_memory_bytes_max});
  in.integer("context_tokens", out.context_tokens, {1, k_tokens_max});
  in.integer("page_tokens", out.page_tokens, {1, 1LL << 20});
  in.bytes("token_bytes", out.token_bytes, {1, 1LL << 30});
  in.map("replication", [&](map_reader& m) {
    m.integer("state_slots", out.kept_slots, {0, k_slots_max});
    m.integer("context_tokens", out.kept_context_tokens, {0, k_tokens_max});
  });
  std::int64_t bytes_per_s = 0;
  in.bytes("transfer_bytes_per_s", bytes_per_s, {1, k_memory_bytes_max});
  out.transfer_bytes_per_s = static_cast<double>(bytes_per_s);
  if (out.kept_slots > 0 && out.kept_slots >= out.state_slots) {
    in.fail("replication", "needs more state_slots than it keeps");
  }
  const policy::account_view fixed{.memory_bytes = out.memory_bytes,
                                   .weights_bytes = out.weights_bytes,
                                   .runtime_bytes = out.runtime_bytes};
  // Products as doubles: they may pass 2^63.
  const double state = static_cast<double>(out.state_slots) * static_cast<double>(out.state_bytes);
  const double context = static_cast<double>(out.context_tokens) * static_cast<double>(out.token_bytes);
  if (out.memory_bytes > 0 && (policy::is_overdrawn(fixed) ||
                               state + context > static_cast<double>(policy::bytes_for_state(fixed)))) {
    in.fail("memory_bytes",
            fmt::format("is too little: weights and runtime take {}, {} slots of state {:.0f}, {} tokens of "
                        "context {:.0f} bytes",
                        out.weights_bytes + out.runtime_bytes, out.state_slots, state, out.context_tokens,
                        context));
  }
}

void read_terms(map_reader& in, terms_config& out) {
  in.flag("hosted", out.hosted);
  in.map("speed", [&](map_reader& m) {
    m.integer("prefill_tokens_per_s", out.prefill_tokens_per_s, {1, 1'000'000'000});
    m.integer("ttft_base_ms", out.ttft_base_ms, {0, k_milliseconds_max});
  });
  in.map("price", [&](map_reader& m) {
    m.number("usd_per_hour", out.usd_per_hour, 0, k_usd_max);
    read_prices(m, out.prices);
  });
  in.map("accounts", [&](map_reader& m) { read_accounts(m, out.accounts); });
  in.number("quality", out.quality, 0.001, 1000);
  in.map("metrics", [&](map_reader& m) {
    out.metrics_interval_ms = 1'000;
    m.integer("interval_ms", out.metrics_interval_ms, {50, k_milliseconds_max});
    m.url_path("path", out.metrics_path);
  });
}

void read_failover(map_reader& in, failover_config& out) {
  in.integer("attempts", out.attempts, {1, policy::failover::k_attempts_max});
  in.integer("retry_percent", out.retry_percent, {0, 100});
  in.integer("hedge_after_ms", out.hedge_after_ms, {0, k_milliseconds_max});
  in.integer("hedge_percent", out.hedge_percent, {0, 100});
  in.integer("failures", out.failures, {1, 1000});
  in.integer("open_ms", out.open_ms, {100, k_milliseconds_max});
  in.integer("slow_start_ms", out.slow_start_ms, {0, k_milliseconds_max});
}

void read_overload(map_reader& in, overload_config& out) {
  in.integer("waiting", out.waiting, {0, k_waiting_max});
  in.integer("wait_ms", out.wait_ms, {0, k_milliseconds_max});
}

void read_model_terms(map_reader& in, model_config& out) {
  in.file_path("tokenizer", out.tokenizer);
  in.integer("ttft_ms", out.ttft_ms, {1, k_milliseconds_max});
  in.integer("itl_ms", out.itl_ms, {1, k_milliseconds_max});
  in.map("overflow", [&](map_reader& m) {
    m.flag("engine", out.overflow_engine);
    m.flag("hosted", out.overflow_hosted);
    m.flag("spill_by_cost", out.spill_by_cost);
  });
}

}  // namespace weir::gateway::config
