// Logits to tokens for one sequence, exactly as sampling_params says. Order: log-probabilities of the model's
// own distribution; then logit_bias and penalties; then what a constraint does not allow is out; then argmax,
// or temperature, top_k, top_p of what that left, min_p and one draw. Deterministic on every platform: the
// draw is a function of the seed and the token's index. One sequence, one thread.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/engine.hpp"
#include "engine/sampling_params.hpp"

namespace weir::engine::sample {

// Uniform in [0, 1), the index-th of the stream `seed`: 53 random bits of the splitmix64 sequence.
double uniform(std::uint64_t seed, std::uint64_t index) noexcept;

class sampler final {
 public:
  // REQUIRES: check(params, vocabulary) passed.
  explicit sampler(sampling_params params) : params_(std::move(params)) {}

  // Picks the next token from `logits` [V] and counts it for the penalties. A NaN logit is never picked,
  // unless all are (then token 0). Of `allowed`, where there is one, always a member, if it has any: the
  // first where all of them are NaN.
  token_event next(std::span<const double> logits, const token_mask* allowed = nullptr);

 private:
  struct candidate {
    double weight;  // unnormalised probability; the best has 1
    std::int32_t token;
  };

  void adjust(std::span<const double> logits);
  void keep(const token_mask& allowed);
  std::int32_t draw();
  void keep_nucleus();

  sampling_params params_;
  std::uint64_t drawn_ = 0;
  std::unordered_map<std::int32_t, std::int32_t> generated_;  // token -> times
  std::vector<double> adjusted_;                              // [V]
  std::vector<candidate> candidates_;
};

}  // namespace weir::engine::sample
