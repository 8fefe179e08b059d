// A TCP proxy that harms what it passes on: the faults of a network and of a dying peer, at set or drawn
// bytes.
#pragma once

#include <expected>
#include <string>

#include "loadtest/chaos/plan.hpp"

namespace weir::loadtest::chaos {

// Prints "listening on ADDRESS:PORT" and proxies until SIGTERM or SIGINT, then a summary on standard error.
// SIGUSR1 freezes all forwarding, SIGUSR2 resumes it. The error is a sentence.
std::expected<void, std::string> proxy(const chaos_options& options);

}  // namespace weir::loadtest::chaos
