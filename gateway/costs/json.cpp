#include <fmt/format.h>

#include <cmath>

#include "engine/text/printable.hpp"
#include "engine/text/quote.hpp"
#include "gateway/costs/report.hpp"

namespace weir::gateway::costs {

using namespace policy::economics;

namespace {

std::string quoted(std::string_view text) {
  std::string out;
  engine::text::append_quoted(out, engine::text::printable(text));
  return out;
}

std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

std::string amount(const std::optional<usd_nano>& usd) {
  return usd ? in_json(*usd) : "null";
}

std::string side(const side_cost& cost) {
  return fmt::format(R"({{"usd_per_hour":{},"usd_per_month":{},"usd_per_request":{},)"
                     R"("usd_per_accepted_result":{},"usd_per_million_prompt_tokens":{},)"
                     R"("usd_per_million_output_tokens":{},"usd_per_million_tokens":{}}})",
                     in_json(cost.per_hour), in_json(cost.per_month), amount(cost.per_request),
                     amount(cost.per_accepted), amount(cost.per_mtok_input), amount(cost.per_mtok_output),
                     amount(cost.per_mtok));
}

std::string fleet_json(const fleet& own) {
  const bool possible = own.needed <= k_replicas_max;
  return fmt::format(
      R"({{"replicas":{},"stated":{},"replicas_needed":{},"carries_the_peak":{},"bound_by":"{}",)"
      R"("utilisation_mean":{},"utilisation_peak":{},"requests_per_hour_max":{},)"
      R"("cost_of_needed":{}}})",
      own.replicas, own.stated, possible ? fmt::format("{}", own.needed) : "null", own.carries, own.bound,
      number(own.utilisation_mean), number(own.utilisation_peak), number(own.requests_per_hour),
      own.cost_needed ? side(*own.cost_needed) : "null");
}

std::string crossing_json(const crossing& at) {
  if (at.what == crossing::kind::never) return R"({"exists":false})";
  if (at.what == crossing::kind::always) return R"({"exists":true,"always":true})";
  const auto replicas = at.replicas > 0 ? fmt::format(R"(,"replicas":{})", at.replicas) : std::string();
  return fmt::format(R"({{"exists":true,"value":{}{}}})", number(at.value), replicas);
}

std::string even_json(const break_evens& even) {
  return fmt::format(R"({{"same_replicas_requests_per_hour":{},"first_requests_per_hour":{},)"
                     R"("lasting_requests_per_hour":{},"own_hit_rate":{},"api_hit_rate":{}}})",
                     crossing_json(even.fleet_load), crossing_json(even.first_load),
                     crossing_json(even.lasting_load), crossing_json(even.self_hit_rate),
                     crossing_json(even.api_hit_rate));
}

std::string operations_json(const operational_load& load) {
  std::string contexts;
  for (const auto& c : load.contexts) {
    contexts += fmt::format(R"({}{{"tokens":{},"sequences_per_replica":{},"sequences":{}}})",
                            contexts.empty() ? "" : ",", c.tokens, c.per_replica, c.in_all);
  }
  return fmt::format(
      R"({{"model_fits":{},"free_bytes_per_gpu":{},"contexts":[{}],"sequences_at_peak":{},)"
      R"("replica_losses_per_month":{},"spares":{},"spares_needed":{},"on_call_hours_per_month":{},)"
      R"("on_call_in_cost":{}}})",
      load.memory ? fmt::format("{}", load.memory->fits) : "null",
      load.memory ? fmt::format("{}", load.memory->free_bytes_per_gpu) : "null", contexts,
      load.sequences_at_peak ? number(*load.sequences_at_peak) : "null",
      load.failing ? number(load.losses_per_month) : "null", load.spares,
      load.spares_needed ? fmt::format("{}", *load.spares_needed) : "null",
      load.on_call_hours_per_month ? number(*load.on_call_hours_per_month) : "null", load.on_call_is_priced);
}

std::string list_of(const report& r, bool of_licence) {
  std::string out;
  const auto add = [&](const std::string& entry) { out += (out.empty() ? "" : ",") + entry; };
  if (of_licence) {
    for (const auto& l : licence_lines(r.in)) add(quoted(l.text));
  } else {
    for (const auto& m : r.out.missing) {
      add(R"({"key":)" + quoted(m.key) + R"(,"hint":)" + quoted(m.hint) + '}');
    }
  }
  return '[' + out + ']';
}

std::string isolation_json(const isolation& isolated) {
  return fmt::format(
      R"({{"local_only_share":{},"requests_per_hour":{},"replicas_needed":{},"mixed_usd_per_month":{},)"
      R"("own_usd_per_month":{}}})",
      number(isolated.share), number(isolated.requests_per_hour),
      isolated.replicas ? fmt::format("{}", *isolated.replicas) : "null", amount(isolated.mixed_per_month),
      amount(isolated.own_per_month));
}

std::string maybe(const std::optional<double>& value) {
  return value ? number(*value) : "null";
}

// What --live may have replaced.
std::string inputs_json(const inputs& in) {
  const auto& traffic = in.traffic;
  const bool one_kind = traffic.kinds.size() == 1;
  return fmt::format(
      R"({{"requests_per_hour":{},"peak_to_mean":{},"local_only_share":{},"prompt_tokens":{},)"
      R"("output_tokens":{},"own_hit_rate":{},"own_accepted_share":{},"api_hit_rate":{},)"
      R"("api_accepted_share":{}}})",
      maybe(traffic.requests_per_hour), maybe(traffic.peak_to_mean), maybe(traffic.local_only_share),
      one_kind ? maybe(traffic.kinds.front().prompt_tokens) : "null",
      one_kind ? maybe(traffic.kinds.front().output_tokens) : "null", maybe(in.self_host.hit_rate),
      maybe(in.self_host.accepted_share), maybe(in.api.hit_rate), maybe(in.api.accepted_share));
}

std::string live_json(const report& r) {
  std::string taken;
  for (const auto& text : r.taken) taken += (taken.empty() ? "" : ",") + quoted(text);
  return fmt::format(R"({{"from":{},"taken":[{}]}})", quoted(r.live), taken);
}

}  // namespace

std::string to_json(const report& r) {
  const auto& out = r.out;
  std::string json =
      fmt::format(R"({{"verdict":{{"side":"{}","reason":"{}","text":{}}},"source":{})", side_of(out.what),
                  reason_of(out.what), quoted(verdict(r.in, out)), quoted(r.source));
  json += R"(,"inputs":)" + inputs_json(r.in);
  json += R"(,"live":)" + (r.live.empty() ? "null" : live_json(r));
  json += R"(,"missing":)" + list_of(r, false);
  json += fmt::format(R"(,"own":{{"name":{},"cost":{},"fleet":{}}})", quoted(r.in.self_host.name),
                      out.own ? side(out.own->cost) : "null", out.own ? fleet_json(*out.own) : "null");
  json += fmt::format(R"(,"api":{{"name":{},"cost":{}}})", quoted(r.in.api.name),
                      out.api ? side(*out.api) : "null");
  json += R"(,"difference_usd_per_month":)" + amount(out.saved_per_month);
  json += R"(,"break_even":)" + (out.even ? even_json(*out.even) : "null");
  json += R"(,"isolation":)" + (out.isolated ? isolation_json(*out.isolated) : "null");
  json += R"(,"operational_load":)" + operations_json(out.operations);
  return json + R"(,"licence_to_check":)" + list_of(r, true) + '}';
}

}  // namespace weir::gateway::costs
