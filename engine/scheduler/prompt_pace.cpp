#include "engine/scheduler/prompt_pace.hpp"

#include <algorithm>
#include <limits>

namespace weir::engine::scheduler {

namespace {

constexpr std::int32_t k_first_tokens = 16;
constexpr std::int32_t k_growth = 2;            // of the tokens from one step to the next
constexpr std::int32_t k_mixed_steps_max = 32;  // decode changes as sequences come, go and grow
constexpr double k_new_weight = 0.25;           // of the latest step in an average

void blend(double& average, double value) {
  average = average > 0 ? average + k_new_weight * (value - average) : value;
}

}  // namespace

std::int32_t prompt_pace::budget() const noexcept {
  constexpr std::int32_t k_any = std::numeric_limits<std::int32_t>::max();
  if (stretch_ <= 0) return k_any;
  if (decode_s_ <= 0 || mixed_ >= k_mixed_steps_max) return 0;
  if (token_s_ <= 0) return k_first_tokens;
  const double spare = (stretch_ - 1) * decode_s_ / token_s_;
  const double most = k_growth * static_cast<double>(std::max(last_, k_first_tokens));
  return static_cast<std::int32_t>(std::clamp(spare, 1.0, most));
}

void prompt_pace::note(std::int32_t decoding, std::int32_t prompt, double seconds) noexcept {
  if (decoding == 0 || seconds <= 0) return;
  if (prompt == 0) {
    blend(decode_s_, seconds);
    mixed_ = 0;
    return;
  }
  ++mixed_;
  last_ = prompt;
  // Next to nothing where the step was no longer than without: never zero, which means not known.
  blend(token_s_, std::max(seconds - decode_s_, seconds * 1e-6) / prompt);
}

}  // namespace weir::engine::scheduler
