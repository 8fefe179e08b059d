// Pairs as the admin API lists them. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/comparison/pair.hpp"

namespace weir::gateway::shadow {

// One object. What is not known is null; prices are whole thousand-millionths of a dollar.
std::string to_json(const policy::comparison::pair& pair);

struct pair_page {
  std::vector<policy::comparison::pair> pairs;
  std::string next;  // cursor of the next page; empty: there is none
};
// Nothing: not a page of pairs.
std::optional<pair_page> read_page_of_pairs(std::string_view json);

}  // namespace weir::gateway::shadow
