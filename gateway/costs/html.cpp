#include <fmt/format.h>

#include <cmath>

#include "engine/text/printable.hpp"
#include "gateway/costs/chart.hpp"
#include "gateway/costs/report.hpp"
#include "gateway/html_text.hpp"

namespace weir::gateway::costs {

using namespace policy::economics;

namespace {

constexpr double k_width = 860, k_height = 420;
constexpr double k_left = 100, k_right = 30, k_top = 30, k_bottom = 60;
constexpr std::size_t k_points = 600;  // so that each step of the fleet is seen
constexpr int k_ticks = 5;
constexpr std::string_view k_own_colour = "#1b6ca8", k_api_colour = "#d1495b";

// Nothing is loaded and nothing runs, whatever stands in the inputs file.
constexpr std::string_view k_head = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>weir costs</title>
<style>
body{font:15px/1.5 sans-serif;max-width:900px;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:.5em 0 1.5em}
th,td{padding:.25em .8em;border-bottom:1px solid #ddd;text-align:left;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
p.verdict{font-size:1.15em;padding:.8em 1em;border-left:5px solid #1b6ca8;background:#f2f6fa}
h2{font-size:1em;margin:1.2em 0 .2em}
svg text{font:12px sans-serif;fill:#333}
</style></head><body>
)";

std::string shown(std::string_view text) {
  return escaped(engine::text::printable(text));
}

struct canvas {
  const curves& c;

  double x(double load) const { return k_left + c.load.share_of(load) * (k_width - k_left - k_right); }
  double y(double usd) const {
    return k_height - k_bottom - c.usd.share_of(usd) * (k_height - k_top - k_bottom);
  }
};

std::string axes(const canvas& at) {
  const double bottom = k_height - k_bottom, right = k_width - k_right;
  std::string out = fmt::format(R"(<rect x="{}" y="{}" width="{}" height="{}" fill="none" stroke="#999"/>)",
                                k_left, k_top, right - k_left, bottom - k_top);
  for (int i = 0; i < k_ticks; ++i) {
    const double share = static_cast<double>(i) / (k_ticks - 1);
    const double load = at.c.load.low * std::pow(at.c.load.high / at.c.load.low, share);
    const double usd = at.c.usd.low * std::pow(at.c.usd.high / at.c.usd.low, share);
    out += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)", at.x(load),
                       bottom + 18, in_count(load));
    out += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)", k_left - 8,
                       at.y(usd) + 4, in_millionths(to_nano(usd)));
    out += fmt::format(R"(<path d="M{:.1f} {:.1f}H{:.1f}" stroke="#eee"/>)", k_left, at.y(usd), right);
  }
  return out + fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">requests per hour)"
                           R"( (as many replicas as they need)</text>)",
                           (k_left + right) / 2, k_height - 12);
}

std::string path_of(std::string_view moves, std::string_view colour) {
  return fmt::format(R"(<path d="{}" fill="none" stroke="{}" stroke-width="2"/>)", moves, colour);
}

std::string own_curve(const canvas& at) {
  std::string moves;
  for (const auto& point : at.c.points) {
    if (!point.own_usd) continue;
    moves += fmt::format("{}{:.1f} {:.1f}", moves.empty() ? "M" : "L", at.x(point.requests_per_hour),
                         at.y(*point.own_usd));
  }
  return path_of(moves, k_own_colour);
}

// The same at any load.
std::string api_curve(const canvas& at) {
  return path_of(
      fmt::format("M{:.1f} {:.1f}H{:.1f}", k_left, at.y(at.c.points.front().api_usd), k_width - k_right),
      k_api_colour);
}

std::string marker(const canvas& at, double load, std::string_view label, double row) {
  if (!(load >= at.c.load.low && load <= at.c.load.high)) return {};
  const double x = at.x(load);
  return fmt::format(R"(<path d="M{0:.1f} {1:.1f}V{2:.1f}" stroke="#555" stroke-dasharray="4 3"/>)"
                     R"(<text x="{3:.1f}" y="{4:.1f}">{5}</text>)",
                     x, k_top, k_height - k_bottom, x + 4, k_top + 14 + row * 15, label);
}

std::string plot(const report& r) {
  const auto c = make_curves(r.in, k_points);
  if (!c) return {};
  const canvas at{*c};
  auto svg = fmt::format(R"(<h2>Cost of an accepted result by load</h2>)"
                         R"(<svg viewBox="0 0 {} {}" role="img" aria-label="cost by load">)",
                         k_width, k_height);
  svg += axes(at) + api_curve(at) + own_curve(at);
  svg += marker(at, r.in.traffic.requests_per_hour.value_or(0), "given load", 0);
  if (r.out.even && r.out.even->first_load.what == crossing::kind::at) {
    svg += marker(at, r.out.even->first_load.value, "break-even, first", 1);
  }
  if (r.out.even && r.out.even->lasting_load.what == crossing::kind::at) {
    svg += marker(at, r.out.even->lasting_load.value, "break-even, for good", 2);
  }
  const auto legend = [](double x, std::string_view colour, std::string_view name) {
    return fmt::format(R"(<text x="{}" y="18" style="fill:{}">&#9632; {}</text>)", x, colour, shown(name));
  };
  svg += legend(k_left, k_own_colour, r.in.self_host.name) + legend(k_width / 2, k_api_colour, r.in.api.name);
  return svg + "</svg>\n";
}

std::string cost_table(const report& r) {
  auto out =
      fmt::format(R"(<h2>COST</h2><table><tr><th></th><th class="n">{}</th><th class="n">{}</th></tr>)",
                  shown(r.in.self_host.name), shown(r.in.api.name));
  for (const auto& row : amount_rows(r.out)) {
    out += fmt::format(R"(<tr><td>{}</td><td class="n">{}</td><td class="n">{}</td></tr>)", row.label,
                       row.own, row.api);
  }
  return out + "</table>\n";
}

}  // namespace

std::string to_html(const report& r) {
  std::string out(k_head);
  out += fmt::format("<h1>Should we self-host?</h1>\n<p class=\"verdict\">{}</p>\n",
                     shown(verdict(r.in, r.out)));
  out += cost_table(r) + plot(r);
  for (const auto& s : sections(r)) {
    out += fmt::format("<h2>{}</h2><table>", s.title);
    for (const auto& l : s.lines) {
      out += fmt::format("<tr><td>{}</td><td>{}</td></tr>", shown(l.label), shown(l.text));
    }
    out += "</table>\n";
  }
  return out +
         fmt::format("<p>{}. USD; a month has {} hours; amounts are rounded half up.</p>\n</body></html>\n",
                     shown(r.source), k_hours_per_month);
}

}  // namespace weir::gateway::costs
