// What a replica's memory is promised to before anything is loaded, in six envelopes: weights, runtime,
// per-request KDA state, context pages, replication and transfer. Says whether what was asked for fits, which
// envelope binds if not, and how many sequences of which context would.
//
// One GPU of a tensor-parallel replica is looked at, as all are alike: weights and KDA states are split (by
// heads), MLA latents are on each. Sums are exact; what is split is rounded up. Pure; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "engine/plan/model_sizes.hpp"
#include "engine/result.hpp"

namespace weir::engine::plan {

inline constexpr std::int32_t k_gpus_max = 4096;
inline constexpr std::int64_t k_memory_bytes_max = std::int64_t{1} << 50;
inline constexpr std::int64_t k_sequences_max = 1 << 20;

enum class envelope : std::uint8_t {
  weights,      // of the model
  runtime,      // what does not grow with sequences: driver, kernels, activations, communication
  states,       // a KDA state for each running sequence
  pages,        // MLA latents of each running sequence's context
  replication,  // checkpoints kept for reuse, with their pages
  transfer,     // requests whose state and pages are on their way to or from another replica
};
inline constexpr std::size_t k_envelopes = 6;
const char* name_of(envelope which) noexcept;

struct plan_request {
  std::int32_t gpus = 1;
  std::int64_t memory_bytes = 0;       // of one GPU
  std::int64_t runtime_bytes = 0;      // of one GPU
  std::int64_t sequences = 1;          // running at once
  std::int64_t context_tokens = 4096;  // of each
  std::int64_t kept = 0;               // checkpoints, each of a whole context
  std::int64_t moving = 0;             // requests in transfer
  weight_format weights = weight_format::stored;
  number_formats formats;
};

struct memory_plan {
  std::array<std::int64_t, k_envelopes> bytes{};  // of one GPU
  std::int64_t memory_bytes = 0;
  std::int64_t sum = 0;
  std::int64_t sequence_bytes = 0;  // of one GPU, for one more sequence of the context
  std::int64_t sequences_max = 0;   // of that context, with the other envelopes as asked for
  std::int64_t context_max = 0;     // tokens that each of the asked number may have; at most the model's
  // Weights or runtime where these alone are too much; else, of those that depend on the request, the one
  // that takes most. When all fits: the one of all six that takes most.
  envelope binding = envelope::weights;

  std::int64_t at(envelope which) const noexcept { return bytes[static_cast<std::size_t>(which)]; }
  bool fits() const noexcept { return sum <= memory_bytes; }
};

// errc::bad_request for numbers out of range.
result<memory_plan> make_plan(const model::model_config& config, const plan_request& request);

// "weights 1 + runtime 2 + ... = 6 bytes, of 5": what a refusal says.
std::string sum_text(const memory_plan& plan);

}  // namespace weir::engine::plan
