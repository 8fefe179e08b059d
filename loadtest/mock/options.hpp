// What `weir-loadtest mock` is told on its command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loadtest/mock/faults.hpp"
#include "loadtest/truth/replica_cache.hpp"

namespace weir::loadtest::mock {

inline constexpr std::int64_t k_tokens_max = 10'000'000;

enum class kv_form : std::uint8_t { vllm_map, vllm_array, sglang };
enum class engine_flavor : std::uint8_t { vllm, sglang };  // of /metrics and of the routes of an operator

struct kv_publisher_options {
  std::string endpoint;         // tcp://ADDRESS:PORT; port * takes a free one; empty: no events
  std::string replay_endpoint;  // empty: none
  std::size_t kept_max = 10'000;
  double drop_share = 0;  // of the batches, which only a replay brings
  std::uint64_t seed = 1;
};

// What a mock that plays a replica in earnest is told: its times come from the work and its cache is true.
struct replica_options {
  bool is_on = false;
  double prefill_tokens_per_s = 0;  // 0: takes no time
  double decode_ms = 0;             // from token to token
  double decode_per_request_ms = 0;
  std::int64_t batch = 256;  // requests that run at once
  bool accepts_hints = false;
  truth::cache_rules cache{.capacity_tokens = 1 << 20, .page_tokens = 16, .dense = true};
  kv_publisher_options events;
  kv_form form = kv_form::vllm_map;
};

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
  engine_flavor flavor = engine_flavor::vllm;
  std::int64_t state_slots = 0;  // of recurrent state, one for each that runs; 0: nothing is said of them
  replica_options replica;
};

}  // namespace weir::loadtest::mock
