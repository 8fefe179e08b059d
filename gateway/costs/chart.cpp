#include "gateway/costs/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gateway/costs/report.hpp"

namespace weir::gateway::costs {

using namespace policy::economics;

namespace {

constexpr std::size_t k_columns = 64, k_rows = 13;
constexpr double k_margin = 1.15;  // above and below the curves

std::size_t cell(double share, std::size_t cells) {
  const double at = std::clamp(share, 0.0, 1.0) * static_cast<double>(cells - 1);
  return static_cast<std::size_t>(std::lround(at));
}

std::string load_axis(const curves& c, const report& r) {
  std::string marks(k_columns, '-');
  const double given = r.in.traffic.requests_per_hour.value_or(0);
  if (given > 0) marks[cell(c.load.share_of(given), k_columns)] = '^';
  const auto low = in_count(c.load.low);
  return fmt::format("{:>12} +{}\n{:>12}  {}{:>{}}\n", "", marks, "", low, in_count(c.load.high),
                     k_columns - low.size());
}

}  // namespace

double range::share_of(double value) const noexcept {
  return std::log(value / low) / std::log(high / low);
}

std::optional<curves> make_curves(const inputs& in, std::size_t count) {
  curves out{.points = curve(in, count), .load = {}, .usd = {}};
  std::vector<double> usd;
  for (const auto& point : out.points) {
    usd.push_back(point.api_usd);
    if (point.own_usd) usd.push_back(*point.own_usd);
  }
  if (usd.empty()) return std::nullopt;
  const auto [low, high] = std::minmax_element(usd.begin(), usd.end());
  if (!(*low > 0) || !std::isfinite(*high)) return std::nullopt;
  out.usd = {.low = *low / k_margin, .high = *high * k_margin};
  out.load = {.low = out.points.front().requests_per_hour, .high = out.points.back().requests_per_hour};
  return out;
}

std::string text_chart(const report& r) {
  const auto c = make_curves(r.in, k_columns);
  if (!c) return {};
  std::vector<std::string> rows(k_rows, std::string(k_columns, ' '));
  const auto row_of = [&](double usd) { return k_rows - 1 - cell(c->usd.share_of(usd), k_rows); };
  for (std::size_t x = 0; x < c->points.size(); ++x) {
    const auto& point = c->points[x];
    rows[row_of(point.api_usd)][x] = '-';
    if (!point.own_usd) continue;
    auto& there = rows[row_of(*point.own_usd)][x];
    there = there == '-' ? '+' : '*';
  }
  std::string text = "COST OF AN ACCEPTED RESULT BY LOAD (* self-hosted, - API, + both; ^ the given load)\n";
  for (std::size_t y = 0; y < rows.size(); ++y) {
    const std::string label = y == 0                 ? in_millionths(to_nano(c->usd.high))
                              : y + 1 == rows.size() ? in_millionths(to_nano(c->usd.low))
                                                     : "";
    text += fmt::format("{:>12} |{}\n", label, rows[y].substr(0, rows[y].find_last_not_of(' ') + 1));
  }
  return text + load_axis(*c, r) +
         fmt::format("{:>14}requests per hour, with as many replicas as they need\n", "");
}

}  // namespace weir::gateway::costs
