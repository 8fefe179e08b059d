// How a model is divided among ranks. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace weir::engine {

// Heads, widths of feed-forward blocks and the head's vocabulary are divided in both; routed experts
enum class split_kind : std::uint8_t {
  tensor,  // each by its width
  expert,  // by their number: tokens go to where their experts are
};

constexpr std::optional<split_kind> split_kind_of(std::string_view name) {
  if (name == "tensor") return split_kind::tensor;
  if (name == "expert") return split_kind::expert;
  return std::nullopt;
}

namespace parallel {

// One rank's part. Under split_kind::expert shared experts are whole on each rank, which computes its own
// rows.
struct shard {
  int rank = 0;
  int size = 1;
  split_kind split = split_kind::tensor;

  // The first of `count` things that is this rank's, or the next one's.
  constexpr std::int32_t begin_of(std::int32_t count) const noexcept { return cut(count, rank); }
  constexpr std::int32_t end_of(std::int32_t count) const noexcept { return cut(count, rank + 1); }
  constexpr std::int32_t cut(std::int32_t count, int at) const noexcept {
    return static_cast<std::int32_t>(static_cast<std::int64_t>(count) * at / size);
  }
};

}  // namespace parallel
}  // namespace weir::engine
