// JSON numbers as grammar rules: any, whole ones, and those between two bounds.
//
// Digits are bounded by k_number_digits_max. Numbers with a bound are spelled without exponent, and never as
// -0. A builder's own thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/structure/grammar.hpp"

namespace weir::engine::structure {

struct number_bound {
  std::string decimal;     // [-]digits[.digits], canonical
  bool exclusive = false;  // the bound itself is outside
};

struct number_bounds {
  std::optional<number_bound> low;
  std::optional<number_bound> high;
};

// -1, 0 or 1 as canonical decimals compare.
int compare_decimals(std::string_view a, std::string_view b);

class number_rules final {
 public:
  explicit number_rules(grammar_builder& out) : out_(out) {}

  // Whole numbers alone, or those with a fraction too.
  rule_id any(bool whole);
  // The same within bounds, of which there is at least one. A rule without any text where nothing fits.
  rule_id between(const number_bounds& bounds, bool whole);

 private:
  void digits(state_id from, state_id to, std::uint32_t min, std::uint32_t max);
  void magnitudes(state_id from, const std::optional<number_bound>& low,
                  const std::optional<number_bound>& high, bool whole, state_id to);

  grammar_builder& out_;
  std::optional<rule_id> digit_;
  std::optional<rule_id> whole_;
  std::optional<rule_id> any_;
};

}  // namespace weir::engine::structure
