#include <fmt/format.h>

#include "gateway/html_text.hpp"
#include "gateway/shadow/report.hpp"
#include "gateway/shadow/report_plots.hpp"
#include "policy/comparison/verdict.hpp"

namespace weir::gateway::shadow {

namespace {

using policy::comparison::finding;
using policy::comparison::interval;
using policy::comparison::measure;
using policy::comparison::pair;
using policy::comparison::quantity;
using policy::comparison::side;
using policy::comparison::side_end;
using policy::comparison::sureness;
using policy::comparison::winner;

constexpr std::string_view k_style = R"(
:root { --a: #2563a8; --b: #c2571a; --line: #d5d9de; --dim: #5a6472; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1180px; margin: 2rem auto; padding: 0 1rem;
  color: #1b2430; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem; }
h3 { font-size: 1.05rem; margin-top: 2rem; }
.dim { color: var(--dim); }
dl.verdict { display: grid; grid-template-columns: 13rem 1fr; gap: .5rem 1rem; border: 1px solid var(--line);
  border-radius: 8px; padding: 1rem; }
dl.verdict dt { font-weight: 600; } dl.verdict dd { margin: 0; }
.win { font-weight: 600; border-radius: 4px; padding: 0 .4em; color: #fff; margin-right: .4em; }
.win.a { background: var(--a); } .win.b { background: var(--b); } .win.none { background: #7a828c; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .6rem; text-align: right; }
th:first-child, td:first-child { text-align: left; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(430px, 1fr)); gap: 1rem; }
figure { margin: 0; } figcaption { font-weight: 600; }
svg { width: 100%; height: auto; } svg text { font: 11px system-ui, sans-serif; fill: var(--dim); }
.grid { stroke: var(--line); } polyline { fill: none; stroke-width: 2; }
polyline.a { stroke: var(--a); } polyline.b { stroke: var(--b); }
rect.a { fill: var(--a); } rect.b { fill: var(--b); } .whisker { stroke: #1b2430; stroke-width: 2; }
.key { font-weight: 400; } .key::before { content: "\25A0  "; }
.key.a { color: var(--a); } .key.b { color: var(--b); }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; margin: .5rem 0 1.5rem; }
.pair > div { border: 1px solid var(--line); border-radius: 8px; padding: .6rem .8rem; min-width: 0; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .4rem 0 0; max-height: 22rem; overflow: auto; }
)";

constexpr double k_ns_per_ms = 1e6;

std::string with_interval(double value, const interval& in) {
  const auto bound = [](const std::optional<double>& b) {
    return b ? fmt::format("{:.0f}", *b) : std::string("?");
  };
  return fmt::format("{:.0f} <span class=\"dim\">{}&ndash;{}</span>", value, bound(in.low), bound(in.high));
}

std::string row(std::string_view what, std::string_view who, const measure& m) {
  if (m.n == 0) {
    return fmt::format("<tr><td>{}</td><td>{}</td><td>0</td><td colspan=\"3\">not measured</td></tr>\n", what,
                       escaped(who));
  }
  return fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n", what,
                     escaped(who), m.n, with_interval(m.median, m.median_in), with_interval(m.p95, m.p95_in),
                     with_interval(m.p99, m.p99_in));
}

std::string table(const compared& of) {
  const auto& f = of.figures;
  std::string out =
      "<table><tr><th></th><th></th><th>answers</th><th>median</th><th>p95</th><th>p99</th></tr>\n";
  const std::pair<std::string_view, const quantity*> rows[] = {
      {"first token, ms", &f.ttft_ms},
      {"between tokens, ms", &f.itl_ms},
      {"to the end, ms", &f.end_to_end_ms},
      {"output tokens", &f.output_tokens},
      {"cached prompt tokens", &f.cached_tokens},
  };
  for (const auto& [what, q] : rows) out += row(what, f.primary, q->primary) + row("", f.shadow, q->shadow);
  return out +
         "</table><p class=\"dim\">Beside each figure its 95% interval; ? where there are too few "
         "pairs.</p>\n";
}

std::string verdict_list(const compared& of) {
  std::string out = "<dl class=\"verdict\">\n";
  for (const auto& one : policy::comparison::verdict(of.figures)) {
    const bool won = one.who != winner::none;
    const auto& name = one.who == winner::primary ? of.figures.primary : of.figures.shadow;
    const auto badge = won ? fmt::format("<span class=\"win {}\">{}</span>",
                                         one.who == winner::primary ? "a" : "b", escaped(name))
                           : std::string();
    out += fmt::format("<dt>{}</dt><dd>{}{}</dd>\n", escaped(one.question), badge, escaped(one.words));
  }
  return out + "</dl>\n";
}

std::vector<double> values_of(const compared& of, side pair::*which, std::int64_t side::*field, double unit) {
  std::vector<double> out;
  for (const auto& p : of.pairs) {
    const auto& s = p.*which;
    if (s.end == side_end::ok && s.*field >= 0) out.push_back(static_cast<double>(s.*field) / unit);
  }
  return out;
}

std::string time_plot(const compared& of, std::string_view title, std::int64_t side::*field) {
  return cumulative_plot(title, "ms", {of.figures.primary, values_of(of, &pair::primary, field, k_ns_per_ms)},
                         {of.figures.shadow, values_of(of, &pair::shadow, field, k_ns_per_ms)});
}

std::string price_plot(const compared& of) {
  const auto& price = of.figures.price;
  if (price.n == 0) return {};
  std::vector<plot_bar> bars;
  const auto add = [&](std::string_view name, const policy::comparison::bill& bill, bool shadow) {
    const double each = policy::limits::to_usd(bill.total) / static_cast<double>(price.n);
    bars.push_back({.name = name,
                    .value = each,
                    .low = each,
                    .high = each,
                    .label = fmt::format("${:.6f}; ${:.2f} a million tokens", each, bill.usd_per_mtok()),
                    .is_shadow = shadow});
  };
  add(of.figures.primary, price.primary, false);
  add(of.figures.shadow, price.shadow, true);
  return bar_plot("What a request costs", bars);
}

plot_bar share_bar(std::string_view name, const policy::comparison::share& s, bool shadow) {
  return {.name = name,
          .value = s.value(),
          .low = s.in.low.value_or(s.value()),
          .high = s.in.high.value_or(s.value()),
          .label = fmt::format("{:.2f}% ({} of {})", 100 * s.value(), s.hits, s.n),
          .is_shadow = shadow};
}

std::string share_plots(const compared& of) {
  const auto& f = of.figures;
  const std::vector<plot_bar> fails{share_bar(f.primary, f.reliability.primary_fails, false),
                                    share_bar(f.shadow, f.reliability.shadow_fails, true)};
  std::vector<plot_bar> alike{share_bar("to the byte", f.alike.exact, true)};
  if (f.alike.json.n > 0) alike.push_back(share_bar("as JSON", f.alike.json, true));
  if (f.alike.tools.n > 0) alike.push_back(share_bar("tool calls", f.alike.tools, true));
  return bar_plot("Requests that fail", fails) + bar_plot("Answers that are the same", alike);
}

std::string side_box(const side& s, bool shadow) {
  const auto number = [](std::int64_t value, double unit, std::string_view behind) {
    return value < 0 ? std::string("&ndash;")
                     : fmt::format("{:.0f}{}", static_cast<double>(value) / unit, behind);
  };
  const auto facts = fmt::format(
      "{}, status {}; first token {}, end {}; {} output tokens; {}", policy::comparison::to_text(s.end),
      s.status, number(s.ttft_ns, k_ns_per_ms, " ms"), number(s.end_to_end_ns, k_ns_per_ms, " ms"),
      number(s.output_tokens, 1, ""),
      s.unpriced ? std::string("no price") : fmt::format("${:.6f}", policy::limits::to_usd(s.price)));
  const std::string_view none = s.end == policy::comparison::side_end::ok
                                    ? "Its text was not kept (keep_text)."
                                    : "It gave no whole answer.";
  const auto text = s.excerpt.empty() ? fmt::format("<p class=\"dim\">{}</p>", none)
                                      : fmt::format("<pre>{}</pre>", escaped(s.excerpt));
  return fmt::format("<div><span class=\"win {}\">{}</span> <span class=\"dim\">{}</span>{}</div>",
                     shadow ? "b" : "a", escaped(s.target), facts, text);
}

std::string worst_pairs(const compared& of) {
  const auto worst = policy::comparison::worst(of.pairs, k_worst_shown);
  if (worst.empty()) return "<p>No pair differs.</p>\n";
  std::string out;
  for (const auto i : worst) {
    const auto& p = of.pairs[i];
    const auto shares = p.alike.compared ? fmt::format("shares {:.0f}% of the words", 100 * p.alike.overlap)
                                         : std::string("one side has no whole answer");
    out += fmt::format("<p class=\"dim\">{} UTC, key {}: {}</p><div class=\"pair\">{}{}</div>\n",
                       time_text(p.at_s), escaped(p.key), shares, side_box(p.primary, false),
                       side_box(p.shadow, true));
  }
  return out;
}

std::string section(const compared& of) {
  const auto& f = of.figures;
  std::string out = fmt::format(
      "<h2>{}: {} and {}</h2>\n<p>{} pairs of answers to the same requests, {} to {} UTC. <b>{}</b> answered "
      "the "
      "clients, <b>{}</b> got copies, each after the client had its answer.</p>\n",
      escaped(f.model), escaped(f.primary), escaped(f.shadow), f.pairs, time_text(f.first_s),
      time_text(f.last_s), escaped(f.primary), escaped(f.shadow));
  out += verdict_list(of);
  out += "<h3>Times</h3>\n<div class=\"plots\">\n";
  out += time_plot(of, "First token", &side::ttft_ns) + time_plot(of, "Between tokens", &side::itl_mean_ns) +
         time_plot(of, "To the end", &side::end_to_end_ns);
  out += "</div>\n" + table(of);
  out += "<h3>Price, failures, agreement</h3>\n<div class=\"plots\">\n" + price_plot(of) + share_plots(of) +
         "</div>\n";
  return out + "<h3>Where they differ most</h3>\n" + worst_pairs(of);
}

constexpr std::string_view k_reading = R"(<h2>How to read this</h2>
<p>The sides are compared within pairs, each the same request. <b>Sure</b>: the 99% interval of the
difference lies on one side of none; <b>likely</b>: that of 95% does; else no difference can be told.
Intervals of medians and tails come from order statistics and ask nothing of the distribution; those of
shares are Wilson's; that of the saving is the normal one of a ratio of sums. Failures are compared by
McNemar's exact test, times by the median of the differences. Times begin when a target could be sent the
request; a client that reads slowly makes the first target's end later. Prices are those of the
configuration, cached tokens at their own.</p>
)";

}  // namespace

std::string to_html(std::span<const compared> all) {
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta "
      "http-equiv=\"Content-Security-Policy\" "
      "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<meta name=\"viewport\" "
      "content=\"width=device-width\">\n<title>weir compare</title>\n<style>{}</style></head><body>\n"
      "<h1>Which target is cheaper, faster and more reliable</h1>\n",
      k_style);
  for (const auto& one : all) out += section(one);
  if (all.empty()) out += "<p>There are no pairs.</p>\n";
  return out + std::string(k_reading) + "</body></html>\n";
}

}  // namespace weir::gateway::shadow
