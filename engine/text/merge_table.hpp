// The merges of a Hugging Face vocabulary: which two adjacent tokens become which one, and in what order.
// Unlike with ranks, a pair merges only if it is listed itself, whatever its bytes joined are. Immutable
// after build(); any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/text/hash_bytes.hpp"

namespace weir::engine::text {

struct merge_rule {
  std::int32_t left;
  std::int32_t right;
  std::int32_t joined;
};

class merge_table final {
 public:
  struct found {
    std::int32_t order;  // the lowest merges first; -1: no such merge
    std::int32_t joined;
  };

  merge_table() = default;

  // In order. Of a pair listed twice the later place counts. REQUIRES: ids are not negative.
  static merge_table build(std::span<const merge_rule> rules);

  found find(std::int32_t left, std::int32_t right) const noexcept {
    const std::uint64_t pair = key(left, right);
    const std::uint64_t h = mix_bits(pair ^ 0x9E3779B97F4A7C15ULL, 0xD6E8FEB86659FD93ULL);
    if ((filter_[(h & filter_mask_) >> 6] >> (h & 63) & 1) == 0) return {-1, -1};
    for (std::size_t i = h >> 22 & (slots_.size() - 1);; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].pair == pair) return slots_[i].merge;
      if (slots_[i].pair == k_empty) return {-1, -1};
    }
  }

 private:
  struct slot {
    std::uint64_t pair;
    found merge;
  };
  static constexpr std::uint64_t k_empty = ~0ULL;

  static std::uint64_t key(std::int32_t left, std::int32_t right) noexcept {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }

  std::vector<slot> slots_;            // open addressing; the size is a power of two
  std::vector<std::uint64_t> filter_;  // a bit for each pair's hash
  std::uint64_t filter_mask_ = 0;
};

}  // namespace weir::engine::text
