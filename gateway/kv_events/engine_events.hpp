// What the embedded engine says of its cache, to the index of its own process: no wire, no loss, and nothing
// to replay. A sink is told what happens from when it follows on; what the engine took up before is unknown
// to it until it is taken up anew.
//
// Threads: told() on the engine's worker, which waits for the sink, all else on any; no call overlaps
// another.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "engine/cache/cache_event.hpp"
#include "gateway/kv_events/stream_sink.hpp"

namespace weir::gateway::kv_events {

// In the place of an endpoint in a target's cache configuration.
inline constexpr std::string_view k_own_engine = "inproc://engine";

prefix_index::kv_batch to_batch(std::span<const engine::cache::cache_event> events);

class engine_events final {
 public:
  void told(const std::vector<engine::cache::cache_event>& events);

  // In the place of the one before; null: nobody.
  void follow(std::shared_ptr<stream_sink> sink);

  // The sink cannot use them: blocks of another size.
  bool is_refused() const;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<stream_sink> sink_;  // under mutex_, as is the number
  std::uint64_t sequence_ = 0;         // of the sink's next batch
};

}  // namespace weir::gateway::kv_events
