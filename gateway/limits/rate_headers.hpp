// OpenAI's rate-limit headers. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/http/exchange.hpp"
#include "policy/limits/gcra.hpp"

namespace weir::gateway::limits {

// A duration as Go prints it and OpenAI's servers send it: 6m0s, 1m12s, 8.64s, 3.114s, 17ms, 0s. Below a
// second whole milliseconds, rounded down; above it at most three decimals.
std::string go_duration(std::int64_t ns);

enum class dimension : std::uint8_t { requests, tokens };

// x-ratelimit-{limit,remaining,reset}-{requests,tokens}.
void append_rate_headers(http::header_list& out, dimension what, std::int64_t limit,
                         const policy::limits::level& now);

}  // namespace weir::gateway::limits
