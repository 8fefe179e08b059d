// Numbers of a cost report as people read them, and the sentences that say what they mean. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "policy/economics/compare.hpp"

namespace weir::gateway::costs {

using policy::economics::usd_nano;

std::string grouped(std::int64_t number);  // 1,234,567

// "$29,200.00", to the cent.
std::string in_cents(usd_nano amount);
// "$0.013889", to the millionth: of one request.
std::string in_millionths(usd_nano amount);
// As a JSON number: 0.013888889, to the nano-dollar.
std::string in_json(usd_nano amount);

std::string in_percent(double share);  // "90%", "0.02%"
// Three digits below 100, whole above: "0.25", "2,500"; what is infinite is "any number of".
std::string in_count(double number);

// What to do, in a sentence or two: the verdict.
std::string verdict(const policy::economics::inputs&, const policy::economics::outcome&);
// The word of it, for programs: "api", "self_host", "equal", "neither".
std::string_view side_of(policy::economics::answer);
std::string_view reason_of(policy::economics::answer);

// Each a list of lines.
struct line {
  std::string label;
  std::string text;
};
std::vector<line> fleet_lines(const policy::economics::inputs&, const policy::economics::outcome&);
std::vector<line> break_even_lines(const policy::economics::inputs&, const policy::economics::outcome&);
std::vector<line> isolation_lines(const policy::economics::inputs&, const policy::economics::outcome&);
std::vector<line> operation_lines(const policy::economics::outcome&);
std::vector<line> licence_lines(const policy::economics::inputs&);

}  // namespace weir::gateway::costs
