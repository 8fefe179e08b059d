#include "engine/sample/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "engine/splitmix.hpp"

namespace weir::engine {

namespace {

constexpr float k_temperature_max = 2.0F;
constexpr float k_penalty_max = 2.0F;
constexpr float k_logit_bias_max = 100.0F;
constexpr std::size_t k_logit_bias_entries_max = 1024;

// NaN is outside every range.
bool inside(float value, float min, float max) {
  return value >= min && value <= max;
}

std::unexpected<error> out_of_range(const char* name, const char* range) {
  return fail(errc::bad_request, std::string(name) + " must be " + range);
}

}  // namespace

result<void> check(const sampling_params& params, std::int32_t vocab_size) {
  if (!inside(params.temperature, 0.0F, k_temperature_max)) return out_of_range("temperature", "from 0 to 2");
  if (!inside(params.top_p, std::numeric_limits<float>::min(), 1.0F))
    return out_of_range("top_p", "above 0, at most 1");
  if (params.top_k < 0) return out_of_range("top_k", "0 (off) or more");
  if (!inside(params.min_p, 0.0F, 1.0F)) return out_of_range("min_p", "from 0 to 1");
  if (!inside(params.presence_penalty, -k_penalty_max, k_penalty_max)) {
    return out_of_range("presence_penalty", "from -2 to 2");
  }
  if (!inside(params.frequency_penalty, -k_penalty_max, k_penalty_max)) {
    return out_of_range("frequency_penalty", "from -2 to 2");
  }
  if (params.top_logprobs < -1 || params.top_logprobs > k_top_logprobs_max) {
    return out_of_range("top_logprobs", "from 0 to 20");
  }
  if (params.logit_bias.size() > k_logit_bias_entries_max)
    return out_of_range("logit_bias", "at most 1024 entries");
  for (const auto& [token, bias] : params.logit_bias) {
    if (token < 0 || token >= vocab_size)
      return out_of_range("logit_bias", "keyed by token ids of the vocabulary");
    if (!inside(bias, -k_logit_bias_max, k_logit_bias_max))
      return out_of_range("logit_bias", "from -100 to 100");
  }
  return {};
}

namespace sample {

namespace {

// The first of the largest; NaN loses against everything.
std::int32_t argmax(std::span<const double> values) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (values[i] > values[best] || (std::isnan(values[best]) && !std::isnan(values[i]))) best = i;
  }
  return static_cast<std::int32_t>(best);
}

void report(std::span<const double> logits, int count, token_event& event) {
  const double largest = logits[static_cast<std::size_t>(argmax(logits))];
  double total = 0.0;
  for (const double logit : logits) {
    if (!std::isnan(logit)) total += std::exp(logit - largest);
  }
  const double normaliser = largest + std::log(total);
  const auto logprob = [&](std::int32_t token) {
    return static_cast<float>(logits[static_cast<std::size_t>(token)] - normaliser);
  };
  event.logprob = logprob(event.token);
  // Insertion into a list of at most 20 entries; a tie leaves the lower id first.
  const auto wanted = std::min(static_cast<std::size_t>(count), logits.size());
  std::vector<std::int32_t> best;
  const auto better = [&logits](std::int32_t a, std::int32_t b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  };
  for (std::int32_t token = 0; wanted > 0 && token < static_cast<std::int32_t>(logits.size()); ++token) {
    if (std::isnan(logits[static_cast<std::size_t>(token)])) continue;
    if (best.size() == wanted && !better(token, best.back())) continue;
    if (best.size() == wanted) best.pop_back();
    best.insert(std::upper_bound(best.begin(), best.end(), token, better), token);
  }
  for (const std::int32_t token : best) event.top.push_back({token, logprob(token)});
}

}  // namespace

double uniform(std::uint64_t seed, std::uint64_t index) noexcept {
  // The seed is mixed first, or neighbouring seeds would give shifted copies of one stream.
  const std::uint64_t bits =
      mix_all_bits(mix_all_bits(seed + k_splitmix_step) + (index + 1) * k_splitmix_step);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

void sampler::adjust(std::span<const double> logits) {
  adjusted_.assign(logits.begin(), logits.end());
  for (const auto& [token, bias] : params_.logit_bias) {
    adjusted_[static_cast<std::size_t>(token)] += static_cast<double>(bias);
  }
  for (const auto& [token, times] : generated_) {
    adjusted_[static_cast<std::size_t>(token)] -= static_cast<double>(params_.presence_penalty) +
                                                  static_cast<double>(params_.frequency_penalty) * times;
  }
}

void sampler::keep_nucleus() {
  double total = 0.0;
  for (const candidate& c : candidates_) total += c.weight;
  const double target = static_cast<double>(params_.top_p) * total;
  const auto better = [](const candidate& a, const candidate& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
  };
  // The nucleus is mostly small: sort a front of it and widen that only as needed.
  constexpr std::size_t k_front = 128;
  std::size_t sorted = 0;
  double sum = 0.0;
  for (std::size_t kept = 0; kept < candidates_.size(); ++kept) {
    if (kept == sorted) {
      const auto from = candidates_.begin() + static_cast<std::ptrdiff_t>(sorted);
      sorted = std::min(candidates_.size(), std::max(k_front, sorted * 4));
      std::partial_sort(from, candidates_.begin() + static_cast<std::ptrdiff_t>(sorted), candidates_.end(),
                        better);
    }
    sum += candidates_[kept].weight;
    if (sum >= target) {
      candidates_.resize(kept + 1);
      return;
    }
  }
}

std::int32_t sampler::draw() {
  const std::int32_t best = argmax(adjusted_);
  const double largest = adjusted_[static_cast<std::size_t>(best)];
  if (params_.temperature == 0.0F || !std::isfinite(largest)) return best;
  candidates_.clear();
  for (std::size_t i = 0; i < adjusted_.size(); ++i) {
    const double weight = std::exp((adjusted_[i] - largest) / static_cast<double>(params_.temperature));
    if (weight > 0.0) candidates_.push_back({weight, static_cast<std::int32_t>(i)});
  }
  const auto top_k = static_cast<std::size_t>(params_.top_k);
  if (top_k > 0 && top_k < candidates_.size()) {
    std::partial_sort(candidates_.begin(), candidates_.begin() + params_.top_k, candidates_.end(),
                      [](const candidate& a, const candidate& b) {
                        return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
                      });
    candidates_.resize(top_k);
  }
  if (params_.top_p < 1.0F) keep_nucleus();
  const auto floor = static_cast<double>(params_.min_p);
  std::erase_if(candidates_, [floor](const candidate& c) { return c.weight < floor; });
  double total = 0.0;
  for (const candidate& c : candidates_) total += c.weight;
  double left = uniform(params_.seed, drawn_) * total;
  for (const candidate& c : candidates_) {
    left -= c.weight;
    if (left < 0.0) return c.token;
  }
  return candidates_.back().token;
}

// A NaN is never drawn, an infinitely unlikely token may be.
void sampler::keep(const token_mask& allowed) {
  for (std::size_t token = 0; token < adjusted_.size(); ++token) {
    if (!contains(allowed, static_cast<std::int32_t>(token))) {
      adjusted_[token] = std::numeric_limits<double>::quiet_NaN();
    }
  }
}

token_event sampler::next(std::span<const double> logits, const token_mask* allowed) {
  adjust(logits);
  if (allowed != nullptr) keep(*allowed);
  token_event event{draw(), 0.0F, {}};
  if (allowed != nullptr && !contains(*allowed, event.token)) {
    const auto count = static_cast<std::int32_t>(logits.size());
    for (std::int32_t token = 0; token < count; ++token) {
      if (contains(*allowed, token)) {
        event.token = token;
        break;
      }
    }
  }
  ++drawn_;
  if (params_.top_logprobs >= 0) report(logits, params_.top_logprobs, event);
  ++generated_[event.token];
  return event;
}

}  // namespace sample

}  // namespace weir::engine
