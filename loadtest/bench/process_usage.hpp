// What a process and its descendants use, out of /proc.
#pragma once

#include <cstdint>

namespace weir::loadtest::bench {

struct process_usage {
  double cpu_s = 0;  // on a CPU so far, user and system
  std::int64_t rss_bytes = 0;
};

// Zeros for a process that is not there. Threads that have ended are not counted.
process_usage read_usage(int pid);

}  // namespace weir::loadtest::bench
