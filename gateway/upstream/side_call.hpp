// A small HTTP call to a host beside the requests that are relayed: a replica's metrics, a collector of
// traces. It takes none of a target's places, uses the thread's pooled connections, and replaces one that was
// closed in the meantime, once. One call, one I/O thread.
#pragma once

#include <expected>
#include <memory>
#include <string>
#include <string_view>

#include "gateway/task.hpp"
#include "gateway/upstream/origin.hpp"
#include "gateway/upstream/upstream.hpp"

namespace weir::gateway::upstream {

struct side_reply {
  int status = 0;
  std::int64_t retry_after_s = 0;  // 0: it does not say
  std::string body;
};

// `head`: a whole request head, with the blank line. The error is a phrase that goes behind "it ..." or says
// what failed. A body of more than `body_bytes_max` is an error.
task<std::expected<side_reply, std::string>> call_aside(std::shared_ptr<const origin> at,
                                                        std::string_view head, std::string_view body,
                                                        time_point deadline, std::size_t body_bytes_max);

}  // namespace weir::gateway::upstream
