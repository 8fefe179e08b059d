// A replica or hosted API behind OpenAI's wire as an upstream. Bodies pass byte-true but for the model's name
// and the usage event that we ask for; one credential goes out, the target's own, and nothing of the client's
// head does. Immutable but for counters; all I/O threads.
#pragma once

#include <memory>

#include "gateway/http/byte_budget.hpp"
#include "gateway/upstream/origin.hpp"
#include "gateway/upstream/upstream.hpp"

namespace weir::gateway::upstream {

// Sizes of what a target may send.
struct reply_limits {
  std::size_t body_bytes = std::size_t{64} << 20;
  std::size_t event_bytes = std::size_t{1} << 20;

  friend bool operator==(const reply_limits&, const reply_limits&) = default;
};

// `served_model`: the name to send where the client used another; empty: the client's own goes through.
// `budget` counts replies held in memory, over all targets, and outlives the upstream.
std::shared_ptr<upstream> make_http_upstream(std::shared_ptr<const origin> target, reply_limits limits,
                                             http::byte_budget& budget);

}  // namespace weir::gateway::upstream
