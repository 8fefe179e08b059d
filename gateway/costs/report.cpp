#include "gateway/costs/report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/text/printable.hpp"

namespace weir::gateway::costs {

using namespace policy::economics;

namespace {

constexpr std::size_t k_name_bytes_max = 24;  // in the head of a column

std::string shown(const std::string& text, std::size_t bytes_max = std::string::npos) {
  return engine::text::printable(text, bytes_max);
}

std::vector<line> missing_lines(const outcome& out) {
  std::vector<line> lines;
  for (const auto& input : out.missing) lines.push_back({input.key, input.hint});
  return lines;
}

}  // namespace

std::vector<amount_row> amount_rows(const outcome& out) {
  const auto* own = out.own ? &out.own->cost : nullptr;
  const auto* api = out.api ? &*out.api : nullptr;
  std::vector<amount_row> rows;
  const auto whole = [&](std::string label, usd_nano side_cost::*amount) {
    rows.push_back(
        {std::move(label), own ? in_cents(own->*amount) : "-", api ? in_cents(api->*amount) : "-"});
  };
  const auto part = [&](std::string label, std::optional<usd_nano> side_cost::*amount,
                        std::string (*format)(usd_nano)) {
    const auto cell = [&](const side_cost* side) {
      return side != nullptr && side->*amount ? format(*(side->*amount)) : std::string("-");
    };
    rows.push_back({std::move(label), cell(own), cell(api)});
  };
  whole("per hour", &side_cost::per_hour);
  whole("per month", &side_cost::per_month);
  part("per request", &side_cost::per_request, in_millionths);
  part("per accepted result", &side_cost::per_accepted, in_millionths);
  part("per million prompt tokens", &side_cost::per_mtok_input, in_cents);
  part("per million output tokens", &side_cost::per_mtok_output, in_cents);
  part("per million tokens", &side_cost::per_mtok, in_cents);
  return rows;
}

std::vector<section> sections(const report& r) {
  std::vector<section> out;
  if (!r.live.empty()) {
    auto& lines = out.emplace_back(section{"FROM LIVE TRAFFIC", {{"seen by", r.live}}}).lines;
    for (const auto& text : r.taken) lines.push_back({"", text});
  }
  if (!r.out.missing.empty()) out.push_back({"MISSING INPUTS", missing_lines(r.out)});
  out.push_back({"FLEET", fleet_lines(r.in, r.out)});
  out.push_back({"BREAK-EVEN", break_even_lines(r.in, r.out)});
  out.push_back({"ISOLATION", isolation_lines(r.in, r.out)});
  out.push_back({"OPERATIONAL LOAD", operation_lines(r.out)});
  out.push_back({"LICENCE", licence_lines(r.in)});
  std::erase_if(out, [](const section& s) { return s.lines.empty(); });
  return out;
}

std::string to_text(const report& r) {
  std::string text = fmt::format("{}\nUSD; a month has {} hours; amounts are rounded half up.\n\n{}\n\n",
                                 shown(r.source), k_hours_per_month, shown(verdict(r.in, r.out)));
  text += fmt::format("{:<27}{:>25}{:>26}\n", "COST", shown(r.in.self_host.name, k_name_bytes_max),
                      shown(r.in.api.name, k_name_bytes_max));
  for (const auto& row : amount_rows(r.out)) {
    text += fmt::format("  {:<25}{:>25}{:>26}\n", row.label, row.own, row.api);
  }
  for (const auto& s : sections(r)) {
    text += fmt::format("\n{}\n", s.title);
    std::size_t width = 18;
    for (const auto& l : s.lines) width = std::max(width, l.label.size());
    for (const auto& l : s.lines) text += fmt::format("  {:<{}}  {}\n", l.label, width, shown(l.text));
  }
  if (const auto chart = text_chart(r); !chart.empty()) text += '\n' + chart;
  return text;
}

}  // namespace weir::gateway::costs
