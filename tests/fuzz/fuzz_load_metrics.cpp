// Metrics of a hostile replica: every number read is one that a replica could mean, and as text the same
// series told twice are the same load.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "gateway/route/load_metrics.hpp"

using namespace weir::gateway::route;

namespace {

bool in_range(double value, double max) {
  return value == -1 || (value >= 0 && value <= max * static_cast<double>(k_metrics_engines_max));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto load = read_load(text);
  if (load) {
    const bool sane = in_range(load->running, k_reported_requests_max) &&
                      in_range(load->waiting, k_reported_requests_max) &&
                      in_range(load->waiting_uncached_tokens, k_reported_tokens_max) &&
                      in_range(load->capacity_tokens, k_reported_tokens_max) &&
                      in_range(load->queried_tokens, k_reported_tokens_max);
    if (!sane || *load == load_report()) std::abort();
  }
  // Behind a line of its own the text is no JSON, whatever it begins with.
  const std::string once = "#\n" + std::string(text);
  if (read_load(once + "\n" + once) != read_load(once)) std::abort();
  return 0;
}
