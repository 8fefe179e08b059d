#include "policy/economics/compare.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weir::policy::economics {

namespace {

constexpr std::int64_t k_spares_max = 1000;  // to look for

// What of the inputs is known, in the form that the formulas take.
struct known {
  std::optional<api_line> api;
  std::optional<memory_fit> memory;
  std::optional<std::vector<resource>> bounds;
  std::optional<failures> failing;
  std::optional<std::vector<cost_line>> lines;
  double prompt_tokens = 0;
  double output_tokens = 0;
};

known look_at(const inputs& in) {
  known out;
  out.api = api_cost(in.api, in.traffic);
  out.memory = fit_memory(in.memory, in.self_host);
  out.bounds = resources(in, out.memory);
  out.failing = expect_failures(in.operations, in.self_host);
  out.lines = machine_costs(in.self_host, in.operations, out.failing);
  for (const auto& kind : in.traffic.kinds) {
    out.prompt_tokens += kind.share * kind.prompt_tokens.value_or(0);
    out.output_tokens += kind.share * kind.output_tokens.value_or(0);
  }
  return out;
}

std::optional<usd_nano> per(double usd, double count) {
  if (!(count > 0)) return std::nullopt;
  return to_nano(usd / count);
}

struct hourly {
  double usd = 0;
  double usd_input = 0;  // of it
  double requests = 0;
  double accepted = 0;
};

side_cost cost_of(const hourly& h, const known& k) {
  constexpr double million = 1e6;
  const double prompt = h.requests * k.prompt_tokens / million;
  const double output = h.requests * k.output_tokens / million;
  return {.per_hour = to_nano(h.usd),
          .per_month = to_nano(h.usd * k_hours_per_month),
          .per_request = per(h.usd, h.requests),
          .per_accepted = per(h.usd, h.accepted),
          .per_mtok_input = per(h.usd_input, prompt),
          .per_mtok_output = per(h.usd - h.usd_input, output),
          .per_mtok = per(h.usd, prompt + output)};
}

std::optional<side_cost> api_side(const inputs& in, const known& k) {
  if (!k.api || !in.api.hit_rate || !in.api.accepted_share || !in.traffic.requests_per_hour) {
    return std::nullopt;
  }
  const double requests = *in.traffic.requests_per_hour;
  return cost_of({.usd = requests * k.api->total(*in.api.hit_rate),
                  .usd_input = requests * k.api->input(*in.api.hit_rate),
                  .requests = requests,
                  .accepted = requests * *in.api.accepted_share},
                 k);
}

// Nothing while something of either side that depends on the load is unknown.
std::optional<balance> balance_of(const inputs& in, const known& k) {
  if (!k.bounds || !k.lines || !in.self_host.hit_rate || !in.traffic.peak_to_mean) return std::nullopt;
  balance out{.spares = in.self_host.spare_replicas,
              .bounds = *k.bounds,
              .peak_to_mean = *in.traffic.peak_to_mean,
              .self_hit_rate = *in.self_host.hit_rate,
              .self_accepted = in.self_host.accepted_share.value_or(0),
              .api = k.api.value_or(api_line{}),
              .api_hit_rate = in.api.hit_rate.value_or(0),
              .api_accepted = in.api.accepted_share.value_or(0),
              .reuse_share = in.traffic.reuse_share};
  for (const auto& line : *k.lines) {
    out.usd_per_replica_hour += line.usd_per_replica_hour;
    out.usd_fixed_per_hour += line.usd_per_hour;
  }
  return out;
}

side_cost own_side(const inputs& in, const known& k, const balance& b, std::int64_t replicas) {
  const double usd = b.fleet_usd_per_hour(replicas);
  const auto& work = b.bounds.front();
  const double cold_s = work.cold_s * (1 - b.self_hit_rate);
  const double all_s = cold_s + work.fixed_s;
  const double requests = *in.traffic.requests_per_hour;
  return cost_of({.usd = usd,
                  .usd_input = all_s > 0 ? usd * cold_s / all_s : 0,
                  .requests = requests,
                  .accepted = requests * b.self_accepted},
                 k);
}

std::optional<fleet> fleet_of(const inputs& in, const known& k, const balance& b) {
  if (!in.traffic.requests_per_hour || !in.self_host.accepted_share) return std::nullopt;
  const double requests = *in.traffic.requests_per_hour;
  const auto bound = replicas_per_load(b.bounds, b.peak_to_mean, b.self_hit_rate);
  fleet out{.bound = bound.name, .lines = *k.lines};
  const auto serving_needed = replicas_for(requests, bound);
  out.needed = std::min(serving_needed + b.spares, k_replicas_max + 1);
  out.stated = in.self_host.replicas.has_value();
  out.replicas = in.self_host.replicas.value_or(out.needed);
  const std::int64_t serving = std::max<std::int64_t>(0, out.replicas - b.spares);
  out.carries =
      serving >= serving_needed && serving_needed <= k_replicas_max && (!k.memory || k.memory->fits);
  const double taken = requests > 0 ? requests * bound.replicas : 0;
  out.utilisation_peak = serving > 0 ? taken / static_cast<double>(serving)
                                     : (taken > 0 ? std::numeric_limits<double>::infinity() : 0);
  out.utilisation_mean = out.utilisation_peak / b.peak_to_mean;
  out.requests_per_hour = serving > 0 ? static_cast<double>(serving) / bound.replicas : 0;
  out.cost = own_side(in, k, b, out.replicas);
  if (!out.carries && out.needed <= k_replicas_max) out.cost_needed = own_side(in, k, b, out.needed);
  return out;
}

std::optional<break_evens> break_evens_of(const inputs& in, const known& k, const balance& b,
                                          const fleet& own) {
  const bool whole = k.api && in.api.hit_rate && b.self_accepted > 0 && b.api_accepted > 0;
  const double requests = *in.traffic.requests_per_hour;
  if (!whole) return std::nullopt;
  break_evens out{.fleet_load = fleet_break_even(b, own.replicas),
                  .first_load = first_break_even(b),
                  .lasting_load = lasting_break_even(b),
                  .self_hit_rate = {},
                  .api_hit_rate = {}};
  if (requests > 0) {
    const auto replicas = own.carries ? own.replicas : own.needed;
    out.self_hit_rate = self_hit_break_even(b, requests);
    out.api_hit_rate = api_hit_break_even(b, b.fleet_usd_per_hour(replicas) / (requests * b.self_accepted));
  }
  return out;
}

isolation isolation_of(const inputs& in, const std::optional<balance>& b) {
  isolation out{.share = *in.traffic.local_only_share,
                .requests_per_hour = *in.traffic.local_only_share * in.traffic.requests_per_hour.value_or(0),
                .replicas = std::nullopt,
                .mixed_per_month = std::nullopt,
                .own_per_month = std::nullopt};
  if (!b || out.share <= 0 || !in.traffic.requests_per_hour) return out;
  const auto bound = replicas_per_load(b->bounds, b->peak_to_mean, b->self_hit_rate);
  const auto serving = replicas_for(out.requests_per_hour, bound);
  if (serving <= k_replicas_max) out.replicas = serving + b->spares;
  return out;
}

void add_memory(const inputs& in, const known& k, std::int64_t serving, operational_load& out) {
  out.memory = k.memory;
  if (!k.memory) return;
  for (const auto tokens : in.memory.contexts) {
    const auto each = k.memory->sequences(static_cast<double>(tokens));
    out.contexts.push_back(
        {.tokens = tokens, .per_replica = each, .in_all = each > 0 && serving > 0 ? each * serving : 0});
  }
}

operational_load operations_of(const inputs& in, const known& k, const std::optional<fleet>& own) {
  operational_load out;
  const auto replicas = own ? std::min(own->replicas, k_replicas_max) : in.self_host.replicas.value_or(0);
  out.spares = in.self_host.spare_replicas;
  const auto serving = std::max<std::int64_t>(0, replicas - out.spares);
  add_memory(in, k, serving, out);
  if (k.bounds && k.bounds->size() > 1 && in.self_host.hit_rate && in.traffic.peak_to_mean) {
    const double seconds = (*k.bounds)[1].taken_s(*in.self_host.hit_rate);
    constexpr double per_hour = 3600;
    out.sequences_at_peak =
        in.traffic.requests_per_hour.value_or(0) * *in.traffic.peak_to_mean * seconds / per_hour;
  }
  out.failing = k.failing;
  out.on_call_hours_per_month = in.operations.on_call_hours_per_month;
  out.on_call_is_priced = in.operations.on_call_usd_per_hour.has_value();
  if (!k.failing || replicas == 0) return out;
  out.losses_per_month = static_cast<double>(replicas) * k.failing->losses_per_replica_month;
  const bool is_needed_known = own && own->needed <= k_replicas_max;
  out.spares_needed =
      spares_for(is_needed_known ? own->needed - out.spares : std::max<std::int64_t>(1, serving), *k.failing,
                 in.operations.availability, k_spares_max);
  if (out.on_call_hours_per_month) {
    *out.on_call_hours_per_month += out.losses_per_month * in.operations.hours_per_loss;
  }
  return out;
}

void judge(const inputs& in, const std::optional<balance>& b, outcome& out) {
  if (!out.missing.empty() || !out.api || !out.own) return;
  const double requests = *in.traffic.requests_per_hour;
  out.what = answer::api_no_traffic;
  if (requests <= 0) return;
  const bool has_alternative = out.isolated && out.isolated->share < 1;
  out.what = has_alternative ? answer::api_does_not_fit : answer::nothing_serves;
  const bool fits = out.operations.memory && out.operations.memory->fits;
  if (!fits || (!out.own->carries && !out.own->cost_needed)) return;
  out.what = answer::nothing_may_leave;
  if (!has_alternative) return;
  const auto& own = out.own->carries ? out.own->cost : *out.own->cost_needed;
  out.what = answer::neither;
  if (!own.per_accepted && !out.api->per_accepted) return;
  out.what = own.per_accepted ? answer::self_host_cheaper : answer::api_cheaper;
  if (!own.per_accepted || !out.api->per_accepted) return;
  const usd_nano here = *own.per_accepted;
  const usd_nano there = *out.api->per_accepted;
  out.what = here < there ? answer::self_host_cheaper : here > there ? answer::api_cheaper : answer::equal;
  const double accepted = requests * *in.self_host.accepted_share * k_hours_per_month;
  const auto replicas = out.own->carries ? out.own->replicas : out.own->needed;
  const double month = b->fleet_usd_per_hour(replicas) * k_hours_per_month;
  const double api_usd = b->api_usd_per_accepted(b->api_hit_rate);
  double other = accepted * api_usd;
  if (out.isolated->share > 0) {
    if (!out.isolated->replicas) return;
    const double kept = b->fleet_usd_per_hour(*out.isolated->replicas) * k_hours_per_month;
    other = kept + accepted * (1 - out.isolated->share) * api_usd;
    out.isolated->mixed_per_month = to_nano(other);
    out.isolated->own_per_month = to_nano(month);
    out.what = month < other   ? answer::self_host_cheaper
               : month > other ? answer::api_cheaper
                               : answer::equal;
  }
  out.saved_per_month = to_nano(std::abs(month - other));
}

}  // namespace

outcome compare(const inputs& in) {
  outcome out;
  out.missing = missing(in);
  const auto k = look_at(in);
  out.tokens_per_request = k.prompt_tokens + k.output_tokens;
  out.api = api_side(in, k);
  const auto b = balance_of(in, k);
  if (b) out.own = fleet_of(in, k, *b);
  if (b && out.own) out.even = break_evens_of(in, k, *b, *out.own);
  if (in.traffic.local_only_share) out.isolated = isolation_of(in, b);
  out.operations = operations_of(in, k, out.own);
  judge(in, b, out);
  return out;
}

std::vector<curve_point> curve(const inputs& in, std::size_t points) {
  const auto k = look_at(in);
  const auto b = balance_of(in, k);
  if (!b || !k.api || !in.api.hit_rate || b->self_accepted <= 0 || b->api_accepted <= 0 || points < 2)
    return {};
  std::vector<double> marks;
  const auto mark = [&](double load) {
    if (std::isfinite(load) && load > 0) marks.push_back(load);
  };
  mark(in.traffic.requests_per_hour.value_or(0));
  mark(first_break_even(*b).value);
  mark(lasting_break_even(*b).value);
  const auto bound = replicas_per_load(b->bounds, b->peak_to_mean, b->self_hit_rate);
  mark(1 / bound.replicas);
  if (marks.empty()) return {};
  const auto [low, high] = std::minmax_element(marks.begin(), marks.end());
  constexpr double beyond = 4;
  const double from = *low / beyond;
  const double ratio = *high * beyond / from;
  std::vector<curve_point> out;
  for (std::size_t i = 0; i < points; ++i) {
    const double load = from * std::pow(ratio, static_cast<double>(i) / static_cast<double>(points - 1));
    curve_point point{.requests_per_hour = load,
                      .own_usd = std::nullopt,
                      .api_usd = b->api_usd_per_accepted(b->api_hit_rate)};
    const auto serving = replicas_for(load, bound);
    if (serving <= k_replicas_max) {
      point.replicas = serving + b->spares;
      point.own_usd = b->fleet_usd_per_hour(point.replicas) / (load * b->self_accepted);
    }
    out.push_back(point);
  }
  return out;
}

}  // namespace weir::policy::economics
