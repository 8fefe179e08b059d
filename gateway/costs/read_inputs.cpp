#include "gateway/costs/read_inputs.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <fstream>
#include <set>

#include "gateway/config/reader.hpp"

namespace weir::gateway::costs {

namespace {

using config::fault;
using config::map_reader;
using namespace policy::economics;

constexpr std::int64_t k_bytes_max = std::int64_t{1} << 60;
constexpr std::int64_t k_context_max = std::int64_t{1} << 40;
constexpr double k_price_max = 1e6;  // USD per million tokens
constexpr double k_speed_min = 1e-3, k_speed_max = 1e12;
constexpr double k_hours_max = 1e9;
constexpr double k_availability_max = 0.999999999;
constexpr double k_share_slack = 1e-9;

void maybe_integer(map_reader& in, std::string_view key, std::optional<std::int64_t>& out,
                   config::int_range range) {
  std::int64_t value = range.min;
  in.integer(key, value, range);
  if (in.has(key)) out = value;
}

void maybe_bytes(map_reader& in, std::string_view key, std::optional<std::int64_t>& out) {
  std::int64_t value = 0;
  in.bytes(key, value, {0, k_bytes_max});
  if (in.has(key)) out = value;
}

void read_lengths(map_reader& in, traffic_kind& out) {
  in.maybe_number("prompt_tokens", out.prompt_tokens, 1, k_tokens_per_request_max);
  in.maybe_number("output_tokens", out.output_tokens, 0, k_tokens_per_request_max);
}

void read_kinds(map_reader& in, std::vector<traffic_kind>& out) {
  double sum = 0;
  std::set<std::string> names;
  in.map_list("kinds", [&](map_reader& m) {
    auto& kind = out.emplace_back();
    m.text("name", kind.name);
    m.number("share", kind.share, 0, 1);
    read_lengths(m, kind);
    sum += kind.share;
    for (const auto* key : {"name", "share", "prompt_tokens", "output_tokens"}) {
      if (!m.has(key)) m.fail("", fmt::format("a kind of requests needs {}", key));
    }
    if (!names.insert(kind.name).second) m.fail("name", "another kind has this name");
  });
  if (out.empty() || out.size() > k_kinds_max) {
    in.fail("kinds", fmt::format("expected 1 to {} kinds of requests", k_kinds_max));
  } else if (!(std::abs(sum - 1) <= k_share_slack)) {
    in.fail("kinds", fmt::format("the shares sum to {}, not to 1", sum));
  }
}

void read_traffic(map_reader& in, traffic_inputs& out) {
  in.maybe_number("requests_per_hour", out.requests_per_hour, 0, k_requests_per_hour_max);
  in.maybe_number("peak_to_mean", out.peak_to_mean, 1, 1e6);
  in.maybe_number("local_only_share", out.local_only_share, 0, 1);
  in.number("reuse_share", out.reuse_share, 0, 1);
  traffic_kind all{.name = "all"};
  read_lengths(in, all);
  const bool one_kind = all.prompt_tokens || all.output_tokens;
  if (in.has("kinds")) {
    read_kinds(in, out.kinds);
    if (one_kind) in.fail("kinds", "prompt_tokens and output_tokens belong to each kind then");
  } else {
    in.map_list("kinds", [](map_reader&) {});
    if (one_kind) out.kinds.push_back(std::move(all));
  }
}

void read_prices(map_reader& in, std::vector<api_tier>& out) {
  in.map_list("prices", [&](map_reader& m) {
    auto& tier = out.emplace_back();
    m.integer("prompt_tokens_min", tier.prompt_tokens_min, {0, k_context_max});
    m.maybe_number("miss", tier.miss, 0, k_price_max);
    m.maybe_number("cached", tier.cached, 0, k_price_max);
    m.maybe_number("output", tier.output, 0, k_price_max);
    m.maybe_number("write_5m", tier.write_5m, 0, k_price_max);
    m.maybe_number("write_1h", tier.write_1h, 0, k_price_max);
    const std::size_t i = out.size() - 1;
    if (i == 0 && tier.prompt_tokens_min != 0) m.fail("prompt_tokens_min", "the first prices begin at 0");
    if (i > 0 && tier.prompt_tokens_min <= out[i - 1].prompt_tokens_min) {
      m.fail("prompt_tokens_min", "must be above that of the prices before");
    }
  });
  if (out.size() > k_tiers_max) in.fail("prices", fmt::format("more than {} tiers", k_tiers_max));
}

void read_api(map_reader& in, api_inputs& out) {
  in.text("name", out.name);
  read_prices(in, out.tiers);
  in.maybe_number("hit_rate", out.hit_rate, 0, 1);
  in.maybe_number("accepted_share", out.accepted_share, 0, 1);
  in.number("write_5m_share", out.write_5m_share, 0, 1);
  in.number("write_1h_share", out.write_1h_share, 0, 1);
  in.number("batch_share", out.batch_share, 0, 1);
  in.number("batch_discount", out.batch_discount, 0, 1);
  if (out.write_5m_share + out.write_1h_share > 1 + k_share_slack) {
    in.fail("write_1h_share", "a token is written once: with write_5m_share this is above 1");
  }
}

void read_purchase(map_reader& in, purchase_inputs& out) {
  in.maybe_number("usd_per_replica", out.usd_per_replica, 0, k_usd_max);
  in.maybe_number("months", out.months, 1, 1200);
  in.maybe_number("kw_per_replica", out.kw_per_replica, 0, 1e6);
  in.maybe_number("usd_per_kwh", out.usd_per_kwh, 0, 1e6);
  in.number("pue", out.pue, 1, 100);
}

void read_self_host(map_reader& in, self_host_inputs& out) {
  in.text("name", out.name);
  maybe_integer(in, "replicas", out.replicas, {1, k_replicas_max});
  in.integer("spare_replicas", out.spare_replicas, {0, k_replicas_max / 2});
  maybe_integer(in, "gpus_per_replica", out.gpus_per_replica, {1, k_gpus_max});
  in.maybe_number("usd_per_gpu_hour", out.usd_per_gpu_hour, 0, k_usd_max);
  in.maybe_number("usd_per_replica_hour", out.usd_per_replica_hour, 0, k_usd_max);
  in.map("purchase", [&](map_reader& m) { read_purchase(m, out.purchase.emplace()); });
  in.number("hosting_usd_per_replica_month", out.hosting_usd_per_replica_month, 0, k_usd_max);
  in.number("staff_usd_per_month", out.staff_usd_per_month, 0, k_usd_max);
  in.maybe_number("prefill_tokens_per_s", out.prefill_tokens_per_s, k_speed_min, k_speed_max);
  in.maybe_number("decode_tokens_per_s", out.decode_tokens_per_s, k_speed_min, k_speed_max);
  in.maybe_number("itl_ms", out.itl_ms, 1e-3, 1e7);
  in.number("utilisation_max", out.utilisation_max, 0.01, 1);
  in.maybe_number("hit_rate", out.hit_rate, 0, 1);
  in.maybe_number("accepted_share", out.accepted_share, 0, 1);
  const int priced = int{out.usd_per_gpu_hour.has_value()} + int{out.usd_per_replica_hour.has_value()} +
                     int{out.purchase.has_value()};
  if (priced > 1) in.fail("", "one of usd_per_gpu_hour, usd_per_replica_hour and purchase, not several");
  if (out.replicas && *out.replicas <= out.spare_replicas) {
    in.fail("spare_replicas", "all replicas would be spares; replicas counts them too");
  }
}

void read_contexts(map_reader& in, std::vector<std::int64_t>& out) {
  std::vector<std::string> texts;
  in.text_list("contexts", texts);
  if (texts.size() > k_contexts_max) {
    in.fail("contexts", fmt::format("at most {} lengths", k_contexts_max));
    return;
  }
  for (const auto& text : texts) {
    std::int64_t tokens = 0;
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), tokens);
    if (ec != std::errc() || end != text.data() + text.size() || tokens < 1 || tokens > k_context_max) {
      in.fail("contexts", fmt::format("'{}' is not a number of tokens from 1 to {}", text, k_context_max));
      continue;
    }
    out.push_back(tokens);
  }
}

void read_memory(map_reader& in, memory_inputs& out) {
  maybe_bytes(in, "weights_bytes", out.weights_bytes);
  maybe_bytes(in, "gpu_bytes", out.gpu_bytes);
  maybe_bytes(in, "runtime_bytes_per_gpu", out.runtime_bytes_per_gpu);
  maybe_bytes(in, "state_bytes", out.state_bytes);
  maybe_bytes(in, "page_bytes_per_token", out.page_bytes_per_token);
  in.flag("pages_on_each_gpu", out.pages_on_each_gpu);
  read_contexts(in, out.contexts);
}

void read_operations(map_reader& in, operations_inputs& out) {
  in.maybe_number("gpu_mtbf_hours", out.gpu_mtbf_hours, 1e-3, k_hours_max);
  in.maybe_number("repair_hours", out.repair_hours, 0, k_hours_max);
  in.number("availability", out.availability, 0, k_availability_max);
  in.maybe_number("on_call_hours_per_month", out.on_call_hours_per_month, 0, k_hours_max);
  in.number("hours_per_loss", out.hours_per_loss, 0, k_hours_max);
  in.maybe_number("on_call_usd_per_hour", out.on_call_usd_per_hour, 0, 1e6);
}

void check_hit_rates(map_reader& top, const inputs& in) {
  for (const auto& [key, rate] : {std::pair("api", in.api.hit_rate), {"self_host", in.self_host.hit_rate}}) {
    if (!rate || *rate <= in.traffic.reuse_share + k_share_slack) continue;
    top.fail(key, fmt::format("hit_rate is {}, but only traffic.reuse_share = {} of the tokens repeat", *rate,
                              in.traffic.reuse_share));
  }
}

void read_top(map_reader& top, inputs& out) {
  top.map("traffic", [&](map_reader& m) { read_traffic(m, out.traffic); });
  top.map("api", [&](map_reader& m) { read_api(m, out.api); });
  top.map("self_host", [&](map_reader& m) { read_self_host(m, out.self_host); });
  top.map("memory", [&](map_reader& m) { read_memory(m, out.memory); });
  top.map("operations", [&](map_reader& m) { read_operations(m, out.operations); });
  top.text_list("licence", out.licence);
  if (out.licence.size() > k_licence_lines_max) {
    top.fail("licence", fmt::format("at most {} lines", k_licence_lines_max));
  }
  check_hit_rates(top, out);
}

std::vector<fault> one_fault(const std::filesystem::path& file, std::string message) {
  return {fault{file.string(), {}, "", std::move(message)}};
}

}  // namespace

read_result parse_inputs(std::string_view yaml, const std::filesystem::path& file) {
  if (yaml.size() > k_inputs_bytes_max) {
    return std::unexpected(one_fault(file, fmt::format("larger than {} bytes", k_inputs_bytes_max)));
  }
  config::parse_state state{.file = file.string(), .base_dir = {}, .faults = {}};
  inputs out;
  try {
    const YAML::Node root = YAML::Load(std::string(yaml));
    map_reader top(state, root, "");
    read_top(top, out);
    top.finish();
  } catch (const YAML::Exception& e) {
    const config::mark at{.line = e.mark.line + 1, .column = e.mark.column + 1};
    state.faults.push_back({state.file, at, "", "not valid YAML: " + e.msg});
  }
  if (!state.faults.empty()) return std::unexpected(std::move(state.faults));
  return out;
}

read_result load_inputs(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::unexpected(one_fault(file, "cannot be opened; check the path and its permissions"));
  std::string text(k_inputs_bytes_max + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) return std::unexpected(one_fault(file, "cannot be read"));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return parse_inputs(text, file);
}

}  // namespace weir::gateway::costs
