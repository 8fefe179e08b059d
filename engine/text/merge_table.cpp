#include "engine/text/merge_table.hpp"

#include <bit>

namespace weir::engine::text {

merge_table merge_table::build(std::span<const merge_rule> rules) {
  merge_table out;
  const std::size_t slots = std::bit_ceil(rules.size() + rules.size() / 2 + 2);
  out.slots_.assign(slots, slot{k_empty, {-1, -1}});
  out.filter_.assign(slots * 8 / 64 + 1, 0);
  out.filter_mask_ = std::bit_floor(out.filter_.size() * 64) - 1;
  std::int32_t order = 0;
  for (const merge_rule& rule : rules) {
    const std::uint64_t pair = key(rule.left, rule.right);
    const std::uint64_t h = mix_bits(pair ^ 0x9E3779B97F4A7C15ULL, 0xD6E8FEB86659FD93ULL);
    out.filter_[(h & out.filter_mask_) >> 6] |= 1ULL << (h & 63);
    std::size_t i = h >> 22 & (slots - 1);
    while (out.slots_[i].pair != k_empty && out.slots_[i].pair != pair) i = (i + 1) & (slots - 1);
    out.slots_[i] = {pair, {order++, rule.joined}};
  }
  return out;
}

}  // namespace weir::engine::text
