#include "gateway/shadow/report_plots.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "gateway/html_text.hpp"
#include "gateway/shadow/report.hpp"

namespace weir::gateway::shadow {

namespace {

constexpr double k_width = 560, k_height = 230;
constexpr double k_left = 46, k_right = 14, k_top = 14, k_bottom = 34;
constexpr std::size_t k_points_max = 240;
constexpr double k_least = 0.1;  // of a logarithmic axis

struct axis {
  double low, high;  // powers of ten
  double at(double value) const {
    const double power = std::log10(std::max(value, k_least));
    return k_left + (power - low) / (high - low) * (k_width - k_left - k_right);
  }
};

double height_of(double share) {
  return k_height - k_bottom - share * (k_height - k_top - k_bottom);
}

axis axis_of(const plot_series& a, const plot_series& b) {
  double least = 0, most = 0;
  bool any = false;
  for (const auto* series : {&a, &b}) {
    if (series->values.empty()) continue;
    least = any ? std::min(least, series->values.front()) : series->values.front();
    most = any ? std::max(most, series->values.back()) : series->values.back();
    any = true;
  }
  const double low = std::floor(std::log10(std::max(least, k_least)));
  return {low, std::max(low + 1, std::ceil(std::log10(std::max(most, k_least))))};
}

std::string curve(const plot_series& of, const axis& x, std::string_view style) {
  const auto n = of.values.size();
  if (n == 0) return {};
  std::string points = fmt::format("{:.1f},{:.1f}", x.at(of.values.front()), height_of(0));
  const auto steps = std::min(n, k_points_max);
  for (std::size_t i = 1; i <= steps; ++i) {
    const auto rank = (i * n + steps - 1) / steps;
    const double share = static_cast<double>(rank) / static_cast<double>(n);
    points += fmt::format(" {:.1f},{:.1f}", x.at(of.values[rank - 1]), height_of(share));
  }
  return fmt::format("<polyline class=\"{}\" points=\"{}\"/>\n", style, points);
}

std::string grid(const axis& x, std::string_view unit) {
  std::string out;
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    const double y = height_of(share);
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:.0f}%</text>\n",
        k_left, k_width - k_right, y, k_left - 6, y + 4, share * 100);
  }
  for (double power = x.low; power <= x.high + 0.5; power += 1) {
    const double at = x.at(std::pow(10, power));
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>"
        "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4:g}</text>\n",
        at, k_top, k_height - k_bottom, k_height - k_bottom + 16, std::pow(10, power));
  }
  return out + fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", k_width - k_right,
                           k_height - 4, escaped(unit));
}

std::string figure(std::string_view title, std::string_view legend, double height,
                   const std::string& inside) {
  return fmt::format(
      "<figure><figcaption>{}{}</figcaption><svg viewBox=\"0 0 {} {}\" role=\"img\">\n{}</svg></figure>\n",
      escaped(title), legend, k_width, height, inside);
}

}  // namespace

std::string cumulative_plot(std::string_view title, std::string_view unit, plot_series a, plot_series b) {
  if (a.values.empty() && b.values.empty()) return {};
  std::sort(a.values.begin(), a.values.end());
  std::sort(b.values.begin(), b.values.end());
  const auto x = axis_of(a, b);
  const auto legend = fmt::format(" <span class=\"key a\">{}</span> <span class=\"key b\">{}</span>",
                                  escaped(a.name), escaped(b.name));
  return figure(title, legend, k_height, grid(x, unit) + curve(a, x, "a") + curve(b, x, "b"));
}

std::string bar_plot(std::string_view title, const std::vector<plot_bar>& bars) {
  constexpr double k_row = 34, k_begin = 150, k_space = 170;
  double most = 0;
  for (const auto& bar : bars) most = std::max({most, bar.value, bar.high});
  const auto at = [&](double value) {
    return most <= 0 ? k_begin : k_begin + value / most * (k_width - k_begin - k_space);
  };
  std::string inside;
  double y = 8;
  for (const auto& bar : bars) {
    inside += fmt::format(
        "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>"
        "<rect class=\"{}\" x=\"{}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"18\"/>",
        k_begin - 8, y + 14, escaped(bar.name), bar.is_shadow ? "b" : "a", k_begin, y,
        at(bar.value) - k_begin);
    if (bar.high > bar.low) {
      inside +=
          fmt::format("<line class=\"whisker\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>",
                      at(bar.low), at(bar.high), y + 9, y + 9);
    }
    inside += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                          at(std::max(bar.value, bar.high)) + 8, y + 14, escaped(bar.label));
    y += k_row;
  }
  return figure(title, "", y, inside);
}

}  // namespace weir::gateway::shadow
