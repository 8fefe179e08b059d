// Process-wide log sinks on standard error: messages for people, and the access log with one JSON object per
// line. Writing is asynchronous with a bounded queue that drops its oldest entries, so a slow terminal never
// blocks an I/O thread. Any thread.
#pragma once

#include <string_view>

namespace spdlog {
class logger;
}

namespace weir::gateway::observe {

// Called once by main before anything logs, and again on reload to change the level.
void set_up_logs(std::string_view level);
void flush_logs();

spdlog::logger& access_logger();

}  // namespace weir::gateway::observe
