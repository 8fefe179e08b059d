#include "gateway/costs/live.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gateway/costs/words.hpp"

namespace weir::gateway::costs {

namespace {

using namespace policy::economics;

constexpr std::int64_t k_hour_s = 3600;
constexpr double k_hour = 3600;

double ratio(std::int64_t part, std::int64_t all) {
  return static_cast<double>(part) / static_cast<double>(all);
}

struct sides {
  ledger::traffic_counts all, own, api;
};

sides add_up(const ledger::traffic_summary& seen) {
  sides out;
  for (const auto& [key, counts] : seen.by_target) {
    out.all.add(counts);
    if (key.target.empty()) continue;
    (counts.hosted ? out.api : out.own).add(counts);
  }
  return out;
}

void take_load(const ledger::traffic_summary& seen, const ledger::traffic_counts& all, traffic_inputs& out,
               std::vector<std::string>& said) {
  const std::int64_t seen_s = std::max(seen.until_s - seen.since_s, k_hour_s);
  const double mean = static_cast<double>(all.requests) * k_hour / static_cast<double>(seen_s);
  out.requests_per_hour = mean;
  said.push_back(fmt::format("{} requests in {} hour{}", grouped(all.requests),
                             in_count(static_cast<double>(seen_s) / k_hour), seen_s == k_hour_s ? "" : "s"));
  if (seen_s < k_peak_needs_s) {
    said.push_back("less than a day: no peak is taken from it, and the mean may mislead");
    return;
  }
  std::int64_t busiest = 0;
  for (const auto& [hour, requests] : seen.requests_by_hour) busiest = std::max(busiest, requests);
  out.peak_to_mean = std::max(1.0, static_cast<double>(busiest) / mean);
  said.push_back(fmt::format("the busiest hour had {} requests", grouped(busiest)));
}

void take_lengths(const ledger::traffic_counts& all, traffic_inputs& out, std::vector<std::string>& said) {
  if (all.prompt_tokens == 0) {
    said.push_back("no target said how many tokens its requests had");
    return;
  }
  out.kinds = {{.name = "all",
                .share = 1,
                .prompt_tokens = std::max(1.0, ratio(all.prompt_tokens, all.requests)),
                .output_tokens = ratio(all.output_tokens, all.requests)}};
}

void take_side(std::string_view name, const ledger::traffic_counts& seen, std::optional<double>& hit_rate,
               std::optional<double>& accepted, double& reuse_share, std::vector<std::string>& said) {
  if (seen.requests == 0) {
    said.push_back(
        fmt::format("no request went to {}: its hit rate and accepted share stay the file's", name));
    return;
  }
  accepted = ratio(seen.accepted, seen.requests);
  std::string rate = "none of its targets says what it had cached: the hit rate stays the file's";
  if (seen.known_tokens > 0) {
    hit_rate = ratio(seen.cached_tokens, seen.known_tokens);
    reuse_share = std::max(reuse_share, *hit_rate);
    rate = fmt::format("hit rate {}", in_percent(*hit_rate));
  }
  said.push_back(fmt::format("{}: {} requests, {} accepted, {} failed, {} retried, {} at its prices; {}",
                             name, grouped(seen.requests), grouped(seen.accepted), grouped(seen.failed),
                             grouped(seen.retried), in_cents(seen.cost), rate));
}

}  // namespace

std::vector<std::string> take_from_traffic(const ledger::traffic_summary& seen, inputs& in) {
  const auto [all, own, api] = add_up(seen);
  if (all.requests == 0) return {"no request was seen in this time: all inputs stay the file's"};
  std::vector<std::string> said;
  take_load(seen, all, in.traffic, said);
  in.traffic.local_only_share = ratio(all.local_only, all.requests);
  take_lengths(all, in.traffic, said);
  take_side(in.self_host.name, own, in.self_host.hit_rate, in.self_host.accepted_share,
            in.traffic.reuse_share, said);
  take_side(in.api.name, api, in.api.hit_rate, in.api.accepted_share, in.traffic.reuse_share, said);
  return said;
}

}  // namespace weir::gateway::costs
