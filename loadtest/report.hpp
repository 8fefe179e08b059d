// What a run measured, as a table for people and as JSON with the names that vLLM's `bench serve` uses, so
// that existing scripts read it. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "loadtest/client.hpp"
#include "loadtest/histogram.hpp"

namespace weir::loadtest {

class report final {
 public:
  // `from_intended_s`: from the time the request should have started to its end, for open-loop runs.
  void add(const request_result& result, double from_intended_s);

  std::string table(double run_s) const;
  std::string json(double run_s) const;
  std::uint64_t failed() const noexcept { return failed_; }
  std::uint64_t completed() const noexcept { return end_to_end_.count(); }

 private:
  histogram first_token_;  // TTFT
  histogram per_token_;    // TPOT: (duration - TTFT) / (tokens - 1), a value per request
  histogram gaps_;         // ITL: a value per gap
  histogram end_to_end_;   // E2EL
  histogram from_intended_;
  std::int64_t output_tokens_ = 0;
  std::int64_t tokens_lost_ = 0;
  std::int64_t tokens_reordered_ = 0;
  std::uint64_t failed_ = 0;
  std::map<std::string, std::uint64_t> failures_;  // by reason
};

}  // namespace weir::loadtest
