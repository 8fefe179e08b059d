// A replica that stands in for an inference engine: OpenAI's wire as vLLM speaks it, with set times, sizes
// and faults, fast enough to be a benchmark's floor.
#pragma once

#include <expected>
#include <string>

#include "loadtest/mock/options.hpp"

namespace weir::loadtest::mock {

// Prints "listening on http://ADDRESS:PORT" and serves until SIGTERM or SIGINT. The error is a sentence.
std::expected<void, std::string> serve(const mock_options& options);

}  // namespace weir::loadtest::mock
