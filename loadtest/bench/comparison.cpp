#include "loadtest/bench/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace weir::loadtest::bench {

namespace {

constexpr std::string_view k_direct = "direct";
constexpr std::string_view k_yardstick = "nginx";

measurement gather(const scenario& of, const std::string& target, const std::vector<load_result>& rounds) {
  measurement out{.of = &of, .target = target};
  std::vector<double> rates;
  for (const auto& one : rounds) {
    rates.push_back(one.seconds > 0 ? static_cast<double>(one.requests) / one.seconds : 0);
    out.requests += one.requests;
    out.events += one.events;
    out.failures += one.failures;
    if (out.failure.empty()) out.failure = one.failure;
    out.times.merge(one.times);
    out.cpu_s += one.cpu_s;
    out.rss_bytes = std::max(out.rss_bytes, one.rss_bytes);
  }
  if (out.failures == 0 && out.times.count() == 0) {
    out.failures = 1;
    out.failure = "nothing came in the measured time";
  }
  std::ranges::sort(rates);
  if (!rates.empty()) out.requests_per_s = rates[rates.size() / 2];
  return out;
}

// The measurement of another target under the same scenario, if it has no failures.
const measurement* peer(const std::vector<measurement>& all, const measurement& of, std::string_view target) {
  const auto found = std::ranges::find_if(all, [&](const measurement& one) {
    return one.of == of.of && one.target == target && one.failures == 0;
  });
  return found == all.end() ? nullptr : &*found;
}

double added_us(const std::vector<measurement>& all, const measurement& one, double q) {
  const auto* direct = peer(all, one, k_direct);
  return direct == nullptr ? 0 : (one.times.quantile_s(q) - direct->times.quantile_s(q)) * 1e6;
}

std::string number(double value, bool known, int decimals = 1) {
  return known ? fmt::format("{:.{}f}", value, decimals) : "-";
}

std::string ratios(const std::vector<measurement>& all, const measurement& one) {
  const auto* yardstick = peer(all, one, k_yardstick);
  if (yardstick == nullptr || one.target == k_direct || one.target == k_yardstick) return "";
  const auto ratio = [](double a, double b) { return number(a / b, b > 0, 2); };
  const auto added = added_us(all, *yardstick, 0.5);
  const bool by_event = one.of->stream;
  return fmt::format("{:>9}{:>9}{:>9}", ratio(one.requests_per_s, yardstick->requests_per_s),
                     ratio(added_us(all, one, 0.5), added),
                     by_event ? ratio(one.cpu_us_per_event(), yardstick->cpu_us_per_event())
                              : ratio(one.cpu_us_per_request(), yardstick->cpu_us_per_request()));
}

std::string row(const std::vector<measurement>& all, const measurement& one) {
  const auto start = fmt::format("{:<18}{:<9}", one.of->name, one.target);
  if (one.failures > 0)
    return start + fmt::format("{} FAILED beside {} answers: {}\n", one.failures, one.requests, one.failure);
  const bool added = one.target != k_direct && peer(all, one, k_direct) != nullptr;
  return start +
         fmt::format("{:>10.1f}{:>11.1f}{:>11.1f}{:>10}{:>10}{:>9}{:>9}{:>8}", one.requests_per_s,
                     one.times.quantile_s(0.5) * 1e6, one.times.quantile_s(0.99) * 1e6,
                     number(added_us(all, one, 0.5), added), number(added_us(all, one, 0.99), added),
                     number(one.cpu_us_per_request(), one.cpu_s > 0 && !one.of->paced),
                     number(one.cpu_us_per_event(), one.cpu_s > 0 && one.events > 0, 2),
                     number(static_cast<double>(one.rss_bytes) / (1 << 20), one.rss_bytes > 0)) +
         ratios(all, one) + "\n";
}

}  // namespace

std::vector<measurement> compare(const comparison_options& options,
                                 const std::function<void(const std::string&)>& progress) {
  std::vector<measurement> out;
  for (const auto* of : options.scenarios) {
    const auto& targets = of->paced ? options.paced_targets : options.targets;
    std::vector<std::vector<load_result>> rounds(targets.size());
    for (int round = 0; round < options.rounds; ++round) {
      for (std::size_t i = 0; i < targets.size(); ++i) {
        progress(fmt::format("{} round {} {}", of->name, round + 1, targets[i].name));
        rounds[i].push_back(run_load(*of, targets[i], options.load));
      }
    }
    for (std::size_t i = 0; i < targets.size(); ++i) out.push_back(gather(*of, targets[i].name, rounds[i]));
  }
  return out;
}

std::string comparison_table(const std::vector<measurement>& all) {
  auto out = fmt::format("{:<27}{:>10}{:>11}{:>11}{:>10}{:>10}{:>9}{:>9}{:>8}{:>9}{:>9}{:>9}\n", "", "", "",
                         "", "added", "added", "CPU us/", "CPU us/", "RSS", "x nginx", "x nginx", "x nginx");
  out += fmt::format("{:<18}{:<9}{:>10}{:>11}{:>11}{:>10}{:>10}{:>9}{:>9}{:>8}{:>9}{:>9}{:>9}\n", "scenario",
                     "target", "req/s", "p50 us", "p99 us", "p50 us", "p99 us", "request", "event", "MiB",
                     "req/s", "+p50", "CPU");
  const scenario* last = nullptr;
  for (const auto& one : all) {
    if (last != nullptr && last != one.of) out += "\n";
    last = one.of;
    out += row(all, one);
  }
  return out;
}

std::string comparison_json(const std::vector<measurement>& all) {
  std::string out = "[";
  for (const auto& one : all) {
    if (out.size() > 1) out += ",";
    out += fmt::format(
        "\n{{\"scenario\":\"{}\",\"target\":\"{}\",\"failures\":{},\"requests\":{},\"events\":{},"
        "\"requests_per_s\":{:.2f},\"p50_us\":{:.2f},\"p99_us\":{:.2f},\"added_p50_us\":{:.2f},"
        "\"added_p99_us\":{:.2f},\"cpu_us_per_request\":{:.3f},\"cpu_us_per_event\":{:.4f},\"rss_bytes\":{}}"
        "}",
        one.of->name, one.target, one.failures, one.requests, one.events, one.requests_per_s,
        one.times.quantile_s(0.5) * 1e6, one.times.quantile_s(0.99) * 1e6, added_us(all, one, 0.5),
        added_us(all, one, 0.99), one.cpu_us_per_request(), one.cpu_us_per_event(), one.rss_bytes);
  }
  return out + "\n]\n";
}

}  // namespace weir::loadtest::bench
