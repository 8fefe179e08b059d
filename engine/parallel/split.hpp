// How a model is divided among ranks. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

inline constexpr std::uint16_t k_default_master_port = 29500;  // torchrun's

// Of several processes that compute one model together, each started with the same configuration but for its
// rank. Rank 0 is the engine; the others only follow it (engine::follow).
struct ranks_config {
  int rank = 0;
  int size = 1;
  std::uint16_t master_port =
      k_default_master_port;  // tells groups on one machine apart; of rank 0 on several
  split_kind split = split_kind::tensor;
  int local_rank = 0;       // among those of this machine: its device, where each has one
  std::string master_host;  // of rank 0, where ranks are on several machines; empty: they are not
};

namespace parallel {

// One rank's part. Under split_kind::expert shared experts are whole on each rank, which computes its own
// rows.
struct shard {
  int rank = 0;
  int size = 1;
  split_kind split = split_kind::tensor;

  static constexpr shard of(const ranks_config& place) noexcept {
    return {place.rank, place.size, place.split};
  }

  // The first of `count` things that is this rank's, or the next one's.
  constexpr std::int32_t begin_of(std::int32_t count) const noexcept { return cut(count, rank); }
  constexpr std::int32_t end_of(std::int32_t count) const noexcept { return cut(count, rank + 1); }
  constexpr std::int32_t cut(std::int32_t count, int at) const noexcept {
    return static_cast<std::int32_t>(static_cast<std::int64_t>(count) * at / size);
  }
  // How many of them are each rank's, times `each`.
  std::vector<std::int64_t> by_rank(std::int32_t count, std::int64_t each) const {
    std::vector<std::int64_t> out;
    for (int at = 0; at < size; ++at) out.push_back((cut(count, at + 1) - cut(count, at)) * each);
    return out;
  }
};

}  // namespace parallel
}  // namespace weir::engine
