// Opens a connection to an HTTP target: its addresses in turn until one answers, then TLS with the name
// checked. Threads: the calling I/O thread.
#pragma once

#include <memory>

#include "gateway/http/connection.hpp"
#include "gateway/upstream/origin.hpp"
#include "gateway/upstream/upstream.hpp"

namespace weir::gateway::upstream {

// Logs and counts nothing. Fails with upstream_failed, or deadline_exceeded where `deadline` came before the
// target's own connect and TLS timeouts did.
task<result<std::shared_ptr<http::connection>>> dial(std::shared_ptr<const origin> target,
                                                     time_point deadline);

}  // namespace weir::gateway::upstream
