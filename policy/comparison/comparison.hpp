// What many pairs say of two targets: medians, tails, rates and prices of each side with their intervals, and
// the differences within the pairs. "Primary" is who answered the clients, "shadow" who got the copies.
// verdict.hpp says it in words.
//
// The two sides are compared within pairs, by the same request: what makes one request long makes both
// answers long, and the difference does not show it. Pure; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "policy/comparison/pair.hpp"
#include "policy/comparison/statistics.hpp"

namespace weir::policy::comparison {

// One quantity of one side, over the pairs in which that side has it. Intervals of 95%.
struct measure {
  std::size_t n = 0;  // 0: the rest means nothing
  double median = 0, p95 = 0, p99 = 0;
  interval median_in, p95_in, p99_in;
};

// Shadow minus primary, over the pairs in which both have it.
struct difference {
  std::size_t n = 0;
  double median = 0;
  interval p95, p99;      // of the median
  std::int64_t more = 0;  // pairs in which the shadow's is larger
  std::int64_t less = 0;
  double p_value = 1;  // of the sign test
};

struct quantity {
  measure primary, shadow;
  difference between;
};

struct share {
  std::int64_t hits = 0;
  std::int64_t n = 0;
  interval in;  // 95%

  double value() const noexcept { return n == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(n); }
};

struct bill {
  usd_nano total = 0;         // of the pairs in which both sides have a price
  std::int64_t tokens = 0;    // prompt and output, of the same
  std::int64_t unpriced = 0;  // pairs whose answer has none, or not of all its tokens

  double usd_per_mtok() const noexcept;  // 0 where there is no token
};

struct price_report {
  std::size_t n = 0;  // pairs in which both sides answered and have a price
  bill primary, shadow;
  std::optional<saving> shadow_saves;  // nothing: they cannot be compared
};

struct reliability_report {
  std::array<std::int64_t, k_side_ends> primary{};  // pairs, by how the side ended
  std::array<std::int64_t, k_side_ends> shadow{};
  share primary_fails, shadow_fails;  // all that is not ok
  std::int64_t only_primary_failed = 0;
  std::int64_t only_shadow_failed = 0;
  double p_value = 1;  // McNemar's exact test
};

struct agreement_report {
  share exact, json, tools;  // json and tools: of the pairs in which an answer has it
  measure overlap;
  std::int64_t cut = 0;  // pairs of which only the begin was compared
};

struct report {
  std::string model, primary, shadow;  // of all pairs
  std::size_t pairs = 0;
  std::int64_t first_s = 0, last_s = 0;  // Unix time
  quantity ttft_ms, itl_ms, end_to_end_ms, output_tokens, cached_tokens;
  price_report price;
  reliability_report reliability;
  agreement_report alike;
};

// REQUIRES: all pairs of one model and the same two targets.
report compare(std::span<const pair> pairs);

// The pairs by model and targets, in the order of the first of each.
std::vector<std::vector<pair>> by_targets(std::vector<pair> pairs);

// Indices of the pairs whose answers differ most: a side that failed where the other did not, then the least
// overlap; the newest first among equals. At most `count`.
std::vector<std::size_t> worst(std::span<const pair> pairs, std::size_t count);

}  // namespace weir::policy::comparison
