// Waiting for a target that may hang: while no byte comes of it, a probe on a connection of its own asks
// whether anybody is there at all (policy/failover/freeze.hpp). One probe serves all who wait for the target.
// Threads: the I/O thread of the connection.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "gateway/http/connection.hpp"
#include "gateway/upstream/origin.hpp"
#include "gateway/upstream/upstream.hpp"

namespace weir::gateway::upstream {

inline constexpr std::chrono::milliseconds k_probe_time{800};

enum class patience : std::uint8_t {
  until_deadline,
  while_alive,  // not longer than the target answers probes
};

struct waited {
  http::wait_outcome what = http::wait_outcome::timeout;
  bool frozen = false;  // then `what` is timeout
};

// As connection::wait_bytes.
task<waited> wait_patiently(http::connection& link, std::shared_ptr<const origin> target, patience how,
                            time_point deadline, std::size_t bytes_max);

}  // namespace weir::gateway::upstream
