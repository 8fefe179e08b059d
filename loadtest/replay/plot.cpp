#include "loadtest/replay/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace weir::loadtest::replay {

namespace {

constexpr double k_width = 860, k_height = 480;
constexpr double k_left = 60, k_right = 200, k_top = 40, k_bottom = 50;
constexpr const char* k_colours[] = {"#1b6ca8", "#d1495b", "#2e933c", "#edae49",
                                     "#6a4c93", "#00798c", "#8d6a4f"};
constexpr int k_points = 200;

struct scale {
  double low_s, high_s;

  double x(double seconds) const {
    const double share = std::log(std::clamp(seconds, low_s, high_s) / low_s) / std::log(high_s / low_s);
    return k_left + share * (k_width - k_left - k_right);
  }
  static double y(double share) { return k_height - k_bottom - share * (k_height - k_top - k_bottom); }
};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else
      out += c;
  }
  return out;
}

void add_axes(std::string& out, const scale& s) {
  for (double t = 0.001; t < 1e6; t *= 10) {
    for (const int step : {1, 2, 5}) {
      const double at = t * step;
      if (at < s.low_s || at > s.high_s) continue;
      out += fmt::format(R"(<line x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}" stroke="#ddd"/>)"
                         R"(<text x="{0:.1f}" y="{3}" text-anchor="middle">{4:g} s</text>)",
                         s.x(at), k_top, k_height - k_bottom, k_height - k_bottom + 18, at);
    }
  }
  for (int percent = 0; percent <= 100; percent += 25) {
    out += fmt::format(R"(<line x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}" stroke="#ddd"/>)"
                       R"(<text x="{}" y="{:.1f}" text-anchor="end">{}%</text>)",
                       k_left, k_width - k_right, scale::y(percent / 100.0), scale::y(percent / 100.0),
                       k_left - 6, scale::y(percent / 100.0) + 4, percent);
  }
}

}  // namespace

std::string ttft_plot(std::span<const plotted_run> runs, const std::string& title) {
  scale s{.low_s = 0.05, .high_s = 1};
  for (const auto& r : runs) {
    if (!r.ttft_s.empty()) s.high_s = std::max(s.high_s, static_cast<double>(r.ttft_s.back()));
  }
  std::string out = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" )"
      R"(font-family="sans-serif" font-size="12">)"
      R"(<rect width="{0}" height="{1}" fill="white"/><text x="{2}" y="24" font-size="15">{3}</text>)",
      k_width, k_height, k_left, escaped(title));
  add_axes(out, s);
  double legend = k_top + 10;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto& r = runs[i];
    if (r.ttft_s.empty()) continue;
    const char* colour = k_colours[i % std::size(k_colours)];
    out += fmt::format(R"(<polyline fill="none" stroke-width="2" stroke="{}" points=")", colour);
    for (int p = 0; p <= k_points; ++p) {
      const double share = static_cast<double>(p) / k_points;
      const auto at = static_cast<std::size_t>(share * static_cast<double>(r.ttft_s.size() - 1));
      out += fmt::format("{:.1f},{:.1f} ", s.x(static_cast<double>(r.ttft_s[at])), scale::y(share));
    }
    out += fmt::format(R"("/><text x="{}" y="{}" fill="{}">{}</text>)", k_width - k_right + 10, legend,
                       colour, escaped(r.name));
    legend += 18;
  }
  return out + "</svg>\n";
}

}  // namespace weir::loadtest::replay
