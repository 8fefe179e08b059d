// How fast a model runs here, and how near that is to what the machine can do: reading the weights at the
// speed of memory, or multiply-adds on registers alone, whichever takes longer. Uses the engine's own runner,
// no scheduler and no sampling. Blocks; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/result.hpp"
#include "engine/runner/model_runner.hpp"
#include "kernels/machine.hpp"
#include "kernels/timing.hpp"

namespace weir::engine::bench {

inline constexpr std::int32_t k_batch_max = 1024;
inline constexpr std::int32_t k_bench_tokens_max = 1 << 20;

struct bench_options {
  int compute_threads = 1;
  backend_kind backend = backend_kind::automatic;
  kernels::activation_format activations = kernels::activation_format::float32;  // of the cpu backend
  std::int32_t prompt_tokens = 512;                                              // 1 .. k_bench_tokens_max
  std::int32_t chunk_tokens = 512;                                               // of a prefill step
  std::vector<std::int32_t> batches{1, 4, 16};  // sequences that decode at once, each 1 .. k_batch_max
  std::int32_t context_tokens = 128;            // that each of them has before
  std::int32_t decode_steps = 16;
  double min_seconds = 1.0;                          // each measurement repeats until then
  std::function<void(const std::string&)> progress;  // what is measured now; may be empty
};

// One phase, all of its steps together.
struct phase {
  std::int32_t batch = 0;  // sequences; 0: prefill
  std::int64_t steps = 0;
  std::int64_t tokens = 0;
  double seconds = 0;
  double weight_bytes = 0;  // of matrices, read at least once a step
  double flops = 0;         // of matrix products
  double read_s = 0;        // what reading those bytes takes at best
  double multiply_s = 0;    // what the products take at the peak of the arithmetic that they use
  kernels::op_times times;

  double tokens_per_s() const noexcept { return static_cast<double>(tokens) / seconds; }
  double read_bytes_per_s() const noexcept { return weight_bytes / seconds; }
  double flops_per_s() const noexcept { return flops / seconds; }
  bool bound_by_reading() const noexcept { return read_s >= multiply_s; }
  double share_of_bound() const noexcept { return std::max(read_s, multiply_s) / seconds; }
};

struct bench_report {
  kernels::machine_limits machine;
  std::int64_t parameters = 0;
  std::int64_t weight_bytes = 0;
  std::int64_t token_bytes = 0;  // of weights, that one token reads
  phase prefill;
  std::vector<phase> decode;
};

// errc::bad_request names an option out of range.
result<bench_report> run(std::shared_ptr<const runner::loaded_model> model, const bench_options& options);

}  // namespace weir::engine::bench
