// The comparison of two targets to be read: in a terminal, by programs, and as one page of HTML that needs
// nothing else. All show the same report; the verdict's words come first, figures behind them. Pure; any
// thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/comparison/comparison.hpp"

namespace weir::gateway::shadow {

inline constexpr std::size_t k_worst_shown = 10;

// One model and two targets.
struct compared {
  policy::comparison::report figures;
  std::vector<policy::comparison::pair> pairs;
};

// The pairs by model and targets, each with its figures.
std::vector<compared> compare_all(std::vector<policy::comparison::pair> pairs);

std::string to_text(const compared& of);
std::string to_json(std::span<const compared> all);
std::string to_html(std::span<const compared> all);

// UTC, to the minute.
std::string time_text(std::int64_t unix_s);

}  // namespace weir::gateway::shadow
