#include "policy/comparison/comparison.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace weir::policy::comparison {

namespace {

constexpr double k_ns_per_ms = 1e6;
constexpr double k_mega = 1e6;

measure measure_of(std::vector<double> values) {
  measure out{.n = values.size()};
  if (values.empty()) return out;
  std::sort(values.begin(), values.end());
  const auto at = [&](double q, double& value, interval& in) {
    value = quantile(values, q);
    in = quantile_interval(values, q, confidence::p95);
  };
  at(0.5, out.median, out.median_in);
  at(0.95, out.p95, out.p95_in);
  at(0.99, out.p99, out.p99_in);
  return out;
}

difference difference_of(std::vector<double> values) {
  difference out{.n = values.size()};
  if (values.empty()) return out;
  std::sort(values.begin(), values.end());
  out.median = quantile(values, 0.5);
  out.p95 = quantile_interval(values, 0.5, confidence::p95);
  out.p99 = quantile_interval(values, 0.5, confidence::p99);
  out.more = std::count_if(values.begin(), values.end(), [](double d) { return d > 0; });
  out.less = std::count_if(values.begin(), values.end(), [](double d) { return d < 0; });
  out.p_value = sign_test(out.more, out.less);
  return out;
}

// `field` of answers that ended well; what a broken one took compares with nothing.
quantity quantity_of(std::span<const pair> pairs, std::int64_t side::*field, double unit) {
  std::vector<double> primary, shadow, between;
  const auto value = [&](const side& s) -> std::optional<double> {
    if (s.end != side_end::ok || s.*field < 0) return std::nullopt;
    return static_cast<double>(s.*field) / unit;
  };
  for (const auto& p : pairs) {
    const auto a = value(p.primary);
    const auto b = value(p.shadow);
    if (a) primary.push_back(*a);
    if (b) shadow.push_back(*b);
    if (a && b) between.push_back(*b - *a);
  }
  return {measure_of(std::move(primary)), measure_of(std::move(shadow)), difference_of(std::move(between))};
}

share share_of(std::int64_t hits, std::int64_t n) {
  return {.hits = hits, .n = n, .in = share_interval(hits, n, confidence::p95)};
}

bool ok(const side& s) {
  return s.end == side_end::ok;
}

void add(bill& to, const side& s) {
  to.total += std::min(s.price, std::numeric_limits<usd_nano>::max() - to.total);
  to.tokens += std::max<std::int64_t>(0, s.prompt_tokens) + std::max<std::int64_t>(0, s.output_tokens);
}

price_report prices_of(std::span<const pair> pairs) {
  price_report out;
  std::vector<double> primary, shadow;
  for (const auto& p : pairs) {
    if (!ok(p.primary) || !ok(p.shadow)) continue;
    out.primary.unpriced += p.primary.unpriced ? 1 : 0;
    out.shadow.unpriced += p.shadow.unpriced ? 1 : 0;
    if (p.primary.unpriced || p.shadow.unpriced) continue;
    add(out.primary, p.primary);
    add(out.shadow, p.shadow);
    primary.push_back(limits::to_usd(p.primary.price));
    shadow.push_back(limits::to_usd(p.shadow.price));
  }
  out.n = primary.size();
  out.shadow_saves = ratio_of_sums(primary, shadow);
  return out;
}

reliability_report reliability_of(std::span<const pair> pairs) {
  reliability_report out;
  const auto n = static_cast<std::int64_t>(pairs.size());
  for (const auto& p : pairs) {
    ++out.primary[static_cast<std::size_t>(p.primary.end)];
    ++out.shadow[static_cast<std::size_t>(p.shadow.end)];
    out.only_primary_failed += !ok(p.primary) && ok(p.shadow) ? 1 : 0;
    out.only_shadow_failed += ok(p.primary) && !ok(p.shadow) ? 1 : 0;
  }
  constexpr auto k_ok = static_cast<std::size_t>(side_end::ok);
  out.primary_fails = share_of(n - out.primary[k_ok], n);
  out.shadow_fails = share_of(n - out.shadow[k_ok], n);
  out.p_value = sign_test(out.only_primary_failed, out.only_shadow_failed);
  return out;
}

agreement_report agreement_of(std::span<const pair> pairs) {
  agreement_report out;
  std::vector<double> overlaps;
  std::int64_t exact = 0, json = 0, json_equal = 0, tools = 0, tools_equal = 0;
  for (const auto& p : pairs) {
    const auto& alike = p.alike;
    if (!alike.compared) continue;
    overlaps.push_back(alike.overlap);
    exact += alike.exact ? 1 : 0;
    json += alike.json != likeness::absent ? 1 : 0;
    json_equal += alike.json == likeness::equal ? 1 : 0;
    tools += alike.tools != likeness::absent ? 1 : 0;
    tools_equal += alike.tools == likeness::equal ? 1 : 0;
    out.cut += alike.cut ? 1 : 0;
  }
  out.exact = share_of(exact, static_cast<std::int64_t>(overlaps.size()));
  out.json = share_of(json_equal, json);
  out.tools = share_of(tools_equal, tools);
  out.overlap = measure_of(std::move(overlaps));
  return out;
}

}  // namespace

std::string_view to_text(side_end end) noexcept {
  switch (end) {
    case side_end::ok:
      return "ok";
    case side_end::refused:
      return "refused";
    case side_end::failed:
      return "failed";
    case side_end::unreachable:
      return "unreachable";
    case side_end::timed_out:
      return "timed_out";
    case side_end::broken:
      return "broken";
  }
  return "unknown";
}

double bill::usd_per_mtok() const noexcept {
  return tokens == 0 ? 0 : limits::to_usd(total) * k_mega / static_cast<double>(tokens);
}

report compare(std::span<const pair> pairs) {
  report out{.pairs = pairs.size()};
  if (pairs.empty()) return out;
  out.model = pairs.front().model;
  out.primary = pairs.front().primary.target;
  out.shadow = pairs.front().shadow.target;
  const auto [first, last] = std::minmax_element(
      pairs.begin(), pairs.end(), [](const pair& a, const pair& b) { return a.at_s < b.at_s; });
  out.first_s = first->at_s;
  out.last_s = last->at_s;
  out.ttft_ms = quantity_of(pairs, &side::ttft_ns, k_ns_per_ms);
  out.itl_ms = quantity_of(pairs, &side::itl_mean_ns, k_ns_per_ms);
  out.end_to_end_ms = quantity_of(pairs, &side::end_to_end_ns, k_ns_per_ms);
  out.output_tokens = quantity_of(pairs, &side::output_tokens, 1);
  out.cached_tokens = quantity_of(pairs, &side::cached_tokens, 1);
  out.price = prices_of(pairs);
  out.reliability = reliability_of(pairs);
  out.alike = agreement_of(pairs);
  return out;
}

std::vector<std::vector<pair>> by_targets(std::vector<pair> pairs) {
  std::map<std::tuple<std::string, std::string, std::string>, std::size_t> places;
  std::vector<std::vector<pair>> out;
  for (auto& p : pairs) {
    const auto [at, added] = places.try_emplace({p.model, p.primary.target, p.shadow.target}, out.size());
    if (added) out.emplace_back();
    out[at->second].push_back(std::move(p));
  }
  return out;
}

std::vector<std::size_t> worst(std::span<const pair> pairs, std::size_t count) {
  const auto rank = [&](std::size_t i) {
    const auto& p = pairs[i];
    // Where both failed, or nothing was compared, there is nothing to see.
    const double likeness = ok(p.primary) != ok(p.shadow) ? -1 : p.alike.compared ? p.alike.overlap : 2;
    return std::tuple(likeness, p.alike.exact, -p.at_s, i);
  };
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto& p = pairs[i];
    const bool differs = ok(p.primary) != ok(p.shadow) || (p.alike.compared && !p.alike.exact);
    if (differs) out.push_back(i);
  }
  const auto kept = std::min(count, out.size());
  std::partial_sort(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(kept), out.end(),
                    [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
  out.resize(kept);
  return out;
}

}  // namespace weir::policy::comparison
