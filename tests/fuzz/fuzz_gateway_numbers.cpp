// A gateway's metrics as a live replay reads them: whatever the page, no number is none, and nothing was
// added between a page and itself.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "loadtest/replay/gateway_numbers.hpp"

using namespace weir::loadtest::replay;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view page(reinterpret_cast<const char*>(data), size);
  const auto numbers = read_numbers(page);
  for (const double share : {0.0, 0.5, 0.99, 1.0}) {
    if (!std::isfinite(numbers.decision_s(share)) || numbers.decision_s(share) < 0) std::abort();
  }
  const auto added = since(numbers, numbers);
  if (added.answers_in_all() != 0 || added.prompt_tokens != 0 || added.decision_s(0.5) != 0) std::abort();
  return 0;
}
