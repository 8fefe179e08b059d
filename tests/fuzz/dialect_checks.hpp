// What the fuzz targets of the dialects demand of what comes out. Any thread.
#pragma once

#include <simdjson.h>

#include <cstdlib>
#include <string>

#include "gateway/api/json.hpp"

namespace weir::gateway::dialects::testing {

inline void require(bool holds) {
  if (!holds) std::abort();
}

// Deeper than a body may be: what a string held as JSON is now nested.
inline bool is_json(std::string text) {
  api::tame_numbers(text);
  simdjson::dom::parser parser;
  return parser.parse(text).error() == simdjson::SUCCESS;
}

}  // namespace weir::gateway::dialects::testing
