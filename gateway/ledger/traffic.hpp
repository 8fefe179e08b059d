// What went to each target in each hour: counts for people who decide, not money that must add up. Added to
// in memory by whoever measures, a few rows at a time; each row is written whole, so that writing it twice
// does no harm. Plain values; any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <expected>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "policy/limits/money.hpp"

namespace weir::gateway::ledger {

inline constexpr std::int32_t k_traffic_hours_kept = 31 * 24;
// Beyond it the oldest hours go first. With 88 pairs of model and target a full month fits.
inline constexpr std::size_t k_traffic_rows_max = 65'536;

using hour_number = std::int32_t;  // hours since 1970-01-01

// All >= 0; sums stop at 2^63 - 1.
struct traffic_counts {
  bool hosted = false;  // somebody else's target
  std::int64_t requests = 0;
  std::int64_t accepted = 0;    // in the model's latency contract, no error, first attempt, client stayed
  std::int64_t failed = 0;      // ended in an error that was not the client's leaving
  std::int64_t retried = 0;     // took more than one attempt
  std::int64_t local_only = 0;  // of keys whose requests may not leave
  std::int64_t prompt_tokens = 0;
  std::int64_t known_tokens = 0;   // of them, where the target said what it had cached
  std::int64_t cached_tokens = 0;  // of these
  std::int64_t output_tokens = 0;
  policy::limits::usd_nano cost = 0;  // at the target's configured prices
  std::int64_t first_s = 0;           // Unix times of the first and last end of a request
  std::int64_t last_s = 0;

  void add(const traffic_counts& more) noexcept;
  friend bool operator==(const traffic_counts&, const traffic_counts&) = default;
};

struct traffic_key {
  hour_number hour = 0;
  std::string model;
  std::string target;  // the last one tried; empty: none had room

  friend auto operator<=>(const traffic_key&, const traffic_key&) = default;
};

using traffic_table = std::map<traffic_key, traffic_counts>;

struct traffic_row {
  traffic_key key;
  traffic_counts counts;

  friend bool operator==(const traffic_row&, const traffic_row&) = default;
};

// Adds to a table and forgets what is too old.
class traffic_sum final {
 public:
  explicit traffic_sum(traffic_table found = {}) : rows_(std::move(found)) {}

  struct change {
    std::vector<traffic_row> written;  // as they are now, whole
    std::vector<traffic_key> erased;
  };
  // `more`: of this hour, whatever theirs says. Rows with names beyond FORMAT.md's limits are left out.
  change add(std::vector<traffic_row> more, hour_number hour);

  const traffic_table& rows() const noexcept { return rows_; }

 private:
  traffic_table rows_;
};

// Of some hours, over the targets of one model or all.
struct traffic_summary {
  std::int64_t since_s = 0;  // the first request's end, or what was asked for, whichever is later
  std::int64_t until_s = 0;
  std::map<hour_number, std::int64_t> requests_by_hour;
  traffic_table by_target;  // hour 0
};

// `model` empty: all. Whole hours: that of `since_s` is in it.
traffic_summary summarize(const traffic_table&, std::string_view model, std::int64_t since_s,
                          std::int64_t until_s);

// From the folder of a ledger, whether a gateway has it open or not; changes nothing. A running one is seen
// as of its last write. Blocks. The error names the folder.
std::expected<traffic_table, std::string> read_traffic(const std::filesystem::path& folder);

}  // namespace weir::gateway::ledger
