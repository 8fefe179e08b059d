// How a source of KV events has fared, for metrics. Written by whoever calls its sink, read by any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "prefix_index/event_source.hpp"

namespace weir::gateway::kv_events {

struct event_figures {
  std::atomic<std::uint64_t> batches{0};
  std::atomic<std::uint64_t> blocks_stored{0};
  std::atomic<std::uint64_t> blocks_removed{0};
  std::atomic<std::uint64_t> gaps{0};
  std::atomic<std::uint64_t> restarts{0};
  std::atomic<std::uint64_t> replays_given_up{0};

  void set(const prefix_index::event_counters& of) noexcept {
    batches.store(of.batches, std::memory_order_relaxed);
    blocks_stored.store(of.blocks_stored, std::memory_order_relaxed);
    blocks_removed.store(of.blocks_removed, std::memory_order_relaxed);
    gaps.store(of.gaps, std::memory_order_relaxed);
    restarts.store(of.restarts, std::memory_order_relaxed);
    replays_given_up.store(of.replays_given_up, std::memory_order_relaxed);
  }
};

}  // namespace weir::gateway::kv_events
