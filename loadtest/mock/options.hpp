// What `weir-loadtest mock` is told on its command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loadtest/mock/faults.hpp"

namespace weir::loadtest::mock {

inline constexpr std::int64_t k_tokens_max = 10'000'000;

struct mock_options {
  std::string listen = "127.0.0.1:0";  // ADDRESS:PORT
  int threads = 1;
  std::string model = "mock";
  bool strict_model = false;  // another model name is answered with 404
  std::int64_t context = 131'072;
  std::string api_key;  // empty: none is asked for

  double ttft_ms = 0;
  double itl_ms = 0;
  double jitter = 0;  // share of ttft_ms and itl_ms by which each wait differs, evenly spread
  std::uint64_t seed = 1;

  std::int64_t tokens = 16;      // where the request sets no maximum
  std::int64_t token_bytes = 0;  // shorter token texts are padded to this
  std::int64_t reply_bytes = 0;  // shorter texts of answers that are no stream are padded to this
  std::int64_t burst = 1;        // events in one send when itl_ms is 0
  double cached_share = 0;       // of the prompt tokens that count as cached
  bool echo = false;             // answers with the last user message or the prompt
  std::int64_t keep_alive_ms = 5'000;
  std::vector<fault_share> faults;
};

}  // namespace weir::loadtest::mock
