#include "gateway/ledger/traffic.hpp"

#include <algorithm>
#include <limits>

#include "gateway/ledger/records.hpp"

namespace weir::gateway::ledger {

namespace {

constexpr std::int64_t k_seconds_per_hour = 3600;

void add_to(std::int64_t& sum, std::int64_t more) noexcept {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  sum = more > most - sum ? most : sum + more;
}

}  // namespace

void traffic_counts::add(const traffic_counts& more) noexcept {
  hosted = more.hosted;
  for (const auto count :
       {&traffic_counts::requests, &traffic_counts::accepted, &traffic_counts::failed,
        &traffic_counts::retried, &traffic_counts::local_only, &traffic_counts::prompt_tokens,
        &traffic_counts::known_tokens, &traffic_counts::cached_tokens, &traffic_counts::output_tokens,
        &traffic_counts::cost}) {
    add_to(this->*count, more.*count);
  }
  first_s = first_s == 0 ? more.first_s : std::min(first_s, more.first_s);
  last_s = std::max(last_s, more.last_s);
}

traffic_sum::change traffic_sum::add(std::vector<traffic_row> more, hour_number hour) {
  change out;
  for (auto& row : more) {
    row.key.hour = hour;
    if (!is_storable(row)) continue;
    auto& sum = rows_[row.key];
    sum.add(row.counts);
    row.counts = sum;
    out.written.push_back(std::move(row));
  }
  while (!rows_.empty()) {
    const auto oldest = rows_.begin();
    const bool is_kept = oldest->first.hour > hour - k_traffic_hours_kept;
    if (is_kept && rows_.size() <= k_traffic_rows_max) break;
    std::erase_if(out.written, [&](const traffic_row& row) { return row.key == oldest->first; });
    out.erased.push_back(oldest->first);
    rows_.erase(oldest);
  }
  return out;
}

traffic_summary summarize(const traffic_table& rows, std::string_view model, std::int64_t since_s,
                          std::int64_t until_s) {
  traffic_summary out{.since_s = 0, .until_s = until_s, .requests_by_hour = {}, .by_target = {}};
  const auto first = static_cast<hour_number>(
      std::clamp<std::int64_t>(since_s / k_seconds_per_hour, 0, std::numeric_limits<hour_number>::max()));
  for (auto at = rows.lower_bound({.hour = first, .model = {}, .target = {}}); at != rows.end(); ++at) {
    const auto& [key, counts] = *at;
    if (!model.empty() && key.model != model) continue;
    if (out.requests_by_hour.empty()) out.since_s = counts.first_s;
    out.since_s = std::min(out.since_s, counts.first_s);
    add_to(out.requests_by_hour[key.hour], counts.requests);
    out.by_target[{.hour = 0, .model = key.model, .target = key.target}].add(counts);
  }
  if (out.requests_by_hour.empty()) out.since_s = std::min(since_s, until_s);
  return out;
}

}  // namespace weir::gateway::ledger
