// Random prompts that share prefixes, as chains of keys: a tree of units in which each prompt is a walk.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "prefix_index/block_key.hpp"

namespace weir::prefix_index {

class chain_maker final {
 public:
  explicit chain_maker(std::uint64_t seed) : random_(seed) {}

  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }

  // A new prompt: a prefix of an earlier one (or nothing), then new units; at most `units_max`.
  std::vector<block_key> next(std::uint32_t units_max) {
    std::vector<block_key> chain;
    if (!prompts_.empty() && below(8) != 0) {
      chain = prompts_[below(static_cast<std::uint32_t>(prompts_.size()))];
      if (below(3) == 0) chain.resize(below(static_cast<std::uint32_t>(chain.size() + 1)));
      chain.resize(std::min<std::size_t>(chain.size(), units_max));
    }
    const auto grown = below(4) == 0 ? 0 : below(units_max - static_cast<std::uint32_t>(chain.size()) + 1);
    for (std::uint32_t i = 0; i < grown; ++i) chain.push_back(fresh());
    if (prompts_.size() < k_prompts) {
      prompts_.push_back(chain);
    } else {
      prompts_[below(k_prompts)] = chain;
    }
    return chain;
  }

  // A new prompt of exactly `units`, sharing nothing.
  std::vector<block_key> fresh_chain(std::uint32_t units) {
    std::vector<block_key> chain(units);
    for (auto& key : chain) key = fresh();
    return chain;
  }

 private:
  static constexpr std::uint32_t k_prompts = 40;
  block_key fresh() { return {.low = random_(), .high = random_()}; }

  std::mt19937_64 random_;
  std::vector<std::vector<block_key>> prompts_;
};

}  // namespace weir::prefix_index
