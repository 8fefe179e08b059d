// Which experts tokens are sent to, layer by layer: since the start, and of late. "Of late" has no clock: the
// recent counts of a layer are halved whenever they reach k_recent_tokens for each expert on average, so an
// expert that became hot shows within that many tokens.
//
// Threads: note() from one thread at a time, read() from any meanwhile; counts are atomics that one thread
// writes, which costs no more than plain ones.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/monitor/activity.hpp"

namespace weir::engine::monitor {

inline constexpr std::uint64_t k_recent_tokens = 256;

class expert_load final {
 public:
  // Which of the model's layers have experts, and how many.
  expert_load(const std::vector<bool>& has_experts, std::int32_t experts);

  // REQUIRES: a layer with experts, ids in range.
  void note(std::size_t layer, std::span<const std::int32_t> ids) noexcept;

  std::vector<expert_layer> read() const;

 private:
  using counter = std::atomic<std::uint64_t>;
  struct layer_load {
    std::unique_ptr<counter[]> tokens;  // by expert; null: the layer has none
    std::unique_ptr<counter[]> recent;
    std::uint64_t recent_sum = 0;  // the noting thread's
  };

  std::size_t experts_;
  std::vector<layer_load> layers_;
};

}  // namespace weir::engine::monitor
