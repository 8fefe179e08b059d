#include "engine/monitor/expert_load.hpp"

namespace weir::engine::monitor {

namespace {

// There is one writer.
void add(std::atomic<std::uint64_t>& to, std::uint64_t count) noexcept {
  to.store(to.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
}

}  // namespace

expert_load::expert_load(const std::vector<bool>& has_experts, std::int32_t experts)
    : experts_(static_cast<std::size_t>(experts)), layers_(has_experts.size()) {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (!has_experts[i]) continue;
    layers_[i].tokens = std::make_unique<counter[]>(experts_);
    layers_[i].recent = std::make_unique<counter[]>(experts_);
  }
}

void expert_load::note(std::size_t layer, std::span<const std::int32_t> ids) noexcept {
  layer_load& to = layers_[layer];
  for (const std::int32_t id : ids) {
    add(to.tokens[static_cast<std::size_t>(id)], 1);
    add(to.recent[static_cast<std::size_t>(id)], 1);
  }
  to.recent_sum += ids.size();
  if (to.recent_sum < k_recent_tokens * experts_) return;
  to.recent_sum = 0;
  for (std::size_t i = 0; i < experts_; ++i) {
    const std::uint64_t half = to.recent[i].load(std::memory_order_relaxed) / 2;
    to.recent[i].store(half, std::memory_order_relaxed);
    to.recent_sum += half;
  }
}

std::vector<expert_layer> expert_load::read() const {
  std::vector<expert_layer> out;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const layer_load& from = layers_[i];
    if (from.tokens == nullptr) continue;
    expert_layer& layer = out.emplace_back();
    layer.layer = static_cast<std::int32_t>(i);
    layer.tokens.reserve(experts_);
    std::uint64_t most = 0;
    for (std::size_t e = 0; e < experts_; ++e) {
      layer.tokens.push_back(from.tokens[e].load(std::memory_order_relaxed));
      const std::uint64_t recent = from.recent[e].load(std::memory_order_relaxed);
      layer.recent_tokens += recent;
      if (recent <= most) continue;
      most = recent;
      layer.busiest = static_cast<std::int32_t>(e);
    }
    if (layer.recent_tokens == 0) continue;
    layer.imbalance =
        static_cast<double>(most) * static_cast<double>(experts_) / static_cast<double>(layer.recent_tokens);
  }
  return out;
}

}  // namespace weir::engine::monitor
