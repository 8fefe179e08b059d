// Listens to the KV events of all replicas on one thread of its own and feeds each source's sink. Sources
// come and go at run time. A source that cannot be reached is tried again with growing pauses, for ever; one
// whose events do not fit is left alone and says so in its status.
//
// Threads: add, remove and reset on any thread but the subscriber's own, each until its own thread has done
// it; they never wait for the network. Destruction stops within 100 ms, whatever the peers do.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <string>

#include "gateway/kv_events/source_options.hpp"
#include "gateway/kv_events/stream_sink.hpp"

namespace weir::gateway::kv_events {

class subscriber final {
 public:
  using source_id = std::uint64_t;

  struct source {
    source_id id = 0;
    std::shared_ptr<const source_status> status;
  };

  explicit subscriber(notice notify = {}, const subscriber_limits& limits = {});
  ~subscriber();
  subscriber(const subscriber&) = delete;
  subscriber& operator=(const subscriber&) = delete;

  // The error is a sentence about an endpoint. REQUIRES: sink.
  std::expected<source, std::string> add(const source_options& options, std::shared_ptr<stream_sink> sink);

  // Behind it the sink is called no more. Unknown ids are let pass.
  void remove(source_id id);

  // The replica is known to have restarted: resets the sink.
  void reset(source_id id);

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace weir::gateway::kv_events
