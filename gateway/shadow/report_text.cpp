#include <fmt/format.h>

#include <chrono>

#include "engine/text/printable.hpp"
#include "gateway/shadow/report.hpp"
#include "policy/comparison/verdict.hpp"

namespace weir::gateway::shadow {

namespace {

using policy::comparison::interval;
using policy::comparison::measure;

// Names of models and targets may be another server's.
std::string shown(const std::string& text) {
  return engine::text::printable(text);
}

// A value and the interval that it lies in.
std::string cell(double value, const interval& in) {
  const auto bound = [](const std::optional<double>& b) { return b ? fmt::format("{:.0f}", *b) : "?"; };
  return fmt::format("{:.0f} [{}, {}]", value, bound(in.low), bound(in.high));
}

std::string row(std::string_view side, const measure& m) {
  if (m.n == 0) return fmt::format("    {:<20} not measured\n", shown(std::string(side)));
  return fmt::format("    {:<20} {:>8} {:>22} {:>22} {:>22}\n", shown(std::string(side)), m.n,
                     cell(m.median, m.median_in), cell(m.p95, m.p95_in), cell(m.p99, m.p99_in));
}

std::string table(std::string_view name, const policy::comparison::quantity& q, const compared& of) {
  return fmt::format("  {}\n", name) + row(of.figures.primary, q.primary) + row(of.figures.shadow, q.shadow);
}

}  // namespace

std::vector<compared> compare_all(std::vector<policy::comparison::pair> pairs) {
  std::vector<compared> out;
  for (auto& group : policy::comparison::by_targets(std::move(pairs))) {
    auto figures = policy::comparison::compare(group);
    out.push_back({std::move(figures), std::move(group)});
  }
  return out;
}

std::string time_text(std::int64_t unix_s) {
  namespace time = std::chrono;
  const time::sys_seconds at{time::seconds(unix_s)};
  const auto day = time::floor<time::days>(at);
  const time::year_month_day date(day);
  const time::hh_mm_ss clock(time::floor<time::minutes>(at - day));
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count());
}

std::string to_text(const compared& of) {
  const auto& f = of.figures;
  std::string out = fmt::format(
      "{}: {} (answered the clients) and {} (got copies)\n{} pairs, {} to {} UTC\n\n", shown(f.model),
      shown(f.primary), shown(f.shadow), f.pairs, time_text(f.first_s), time_text(f.last_s));
  for (const auto& finding : policy::comparison::verdict(f)) {
    out += fmt::format("{}\n  {}\n", finding.question, shown(finding.words));
  }
  out += fmt::format("\n    {:<20} {:>8} {:>22} {:>22} {:>22}\n", "", "answers", "median", "p95", "p99");
  out += table("first token, ms", f.ttft_ms, of);
  out += table("between tokens, ms", f.itl_ms, of);
  out += table("to the end, ms", f.end_to_end_ms, of);
  out += table("output tokens", f.output_tokens, of);
  out += table("cached prompt tokens", f.cached_tokens, of);
  out +=
      "  In brackets the 95% interval; ? where there are too few pairs for one. Likely: the 95% interval of "
      "the\n  difference holds one side alone; sure: that of 99% does too.\n";
  return out;
}

}  // namespace weir::gateway::shadow
