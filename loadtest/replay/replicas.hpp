// The replicas of a replay: what they hold, by the rules of their retention. Shares no code with what
// predicts it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "loadtest/truth/replica_cache.hpp"

namespace weir::loadtest::replay {

enum class retention_kind : std::uint8_t {
  dense,            // every block boundary can be resumed, checkpoints cost nothing
  prompt_end,       // LRU; a checkpoint at each prompt's end
  second_sighting,  // and where pages go on beyond what can be resumed
  value,            // checkpoints where hints say, kept by what they save (truth/worth_cache)
  frequency,        // greedy dual size frequency, the reference simulation's retention by value
};

std::optional<retention_kind> to_retention(std::string_view name);

struct cache_options {
  retention_kind keeps = retention_kind::second_sighting;
  std::int64_t capacity_tokens = 2'560'000;
  std::int64_t checkpoint_tokens = 16'253;
  std::int64_t page_tokens = 512;
};

class replica_state {
 public:
  virtual ~replica_state() = default;
  virtual truth::cache_match match(std::span<const std::uint64_t> blocks) const = 0;
  virtual void store(std::span<const std::uint64_t> blocks, const truth::cache_match& match,
                     std::span<const std::size_t> hints, double now_s,
                     std::vector<truth::cache_change>* changes) = 0;
};

std::unique_ptr<replica_state> make_replica(const cache_options& options);

}  // namespace weir::loadtest::replay
