// What a mock replica counts, each thread its own, and the Prometheus text of the sums. A counter is written
// by its thread and read by any.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "loadtest/mock/options.hpp"
#include "loadtest/mock/replica.hpp"

namespace weir::loadtest::mock {

inline constexpr std::int64_t k_block_tokens = 16;
inline constexpr std::int64_t k_kv_blocks = 65'536;
inline constexpr std::size_t k_cache_line_bytes = 64;

class counter final {
 public:
  void add(std::int64_t n) noexcept {  // one writer: no locked instruction is needed
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  std::int64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> value_{0};
};

struct alignas(k_cache_line_bytes) counters {
  counter running;
  counter tokens_in_use;  // prompt and answer of the running requests
  counter cache_queries;  // prompt tokens
  counter cache_hits;
  counter prompt_tokens;
  counter generation_tokens;
  counter success_stop;
  counter success_length;
  counter requests;
  counter malformed;
  counter aborted;
  counter faults;
  counter connections_open;
  counter connections;
};

using all_counters = std::vector<std::unique_ptr<counters>>;

// Prometheus text in the names of the engine that the mock plays. `behind` may be null.
std::string metrics_text(const all_counters& all, const mock_options& options, const replica* behind);

// SGLang's /v1/loads.
std::string loads_json(const all_counters& all, const mock_options& options, const replica* behind);

}  // namespace weir::loadtest::mock
