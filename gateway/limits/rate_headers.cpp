#include "gateway/limits/rate_headers.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace weir::gateway::limits {

namespace {

constexpr std::int64_t k_ms_per_s = 1000;
constexpr std::int64_t k_ns_per_ms = 1'000'000;

std::string seconds_text(std::int64_t ms) {
  std::string out = fmt::format("{}.{:03}", ms / k_ms_per_s, ms % k_ms_per_s);
  out.erase(out.find_last_not_of('0') + 1);
  if (out.back() == '.') out.pop_back();
  return out + 's';
}

}  // namespace

std::string go_duration(std::int64_t ns) {
  const std::int64_t ms = std::max<std::int64_t>(0, ns) / k_ns_per_ms;
  if (ms == 0) return "0s";
  if (ms < k_ms_per_s) return fmt::format("{}ms", ms);
  const std::int64_t minutes = ms / (60 * k_ms_per_s);
  const std::string seconds = seconds_text(ms % (60 * k_ms_per_s));
  if (minutes == 0) return seconds;
  if (minutes < 60) return fmt::format("{}m{}", minutes, seconds);
  return fmt::format("{}h{}m{}", minutes / 60, minutes % 60, seconds);
}

void append_rate_headers(http::header_list& out, dimension what, std::int64_t limit,
                         const policy::limits::level& now) {
  const bool requests = what == dimension::requests;
  out.emplace_back(requests ? "x-ratelimit-limit-requests" : "x-ratelimit-limit-tokens",
                   std::to_string(limit));
  out.emplace_back(requests ? "x-ratelimit-remaining-requests" : "x-ratelimit-remaining-tokens",
                   std::to_string(now.remaining));
  out.emplace_back(requests ? "x-ratelimit-reset-requests" : "x-ratelimit-reset-tokens",
                   go_duration(now.reset_ns));
}

}  // namespace weir::gateway::limits
