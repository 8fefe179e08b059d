#include "gateway/kv_events/source_options.hpp"

#include <fmt/format.h>

#include <charconv>

namespace weir::gateway::kv_events {

namespace {

constexpr std::int32_t k_port_max = 65'535;

}  // namespace

std::expected<std::string, std::string> rank_endpoint(const std::string& endpoint, std::int32_t rank) {
  if (endpoint.starts_with("ipc://") || endpoint.starts_with("inproc://")) {
    if (rank == 0) return endpoint;
    return std::unexpected(fmt::format("{}: only a tcp endpoint has data-parallel ranks", endpoint));
  }
  const auto colon = endpoint.rfind(':');
  constexpr std::size_t k_scheme_bytes = 6;
  if (!endpoint.starts_with("tcp://") || colon == std::string::npos || colon <= k_scheme_bytes)
    return std::unexpected(fmt::format("{}: not tcp://HOST:PORT or ipc://PATH", endpoint));
  std::int32_t port = 0;
  const auto* last = endpoint.data() + endpoint.size();
  const auto [end, error] = std::from_chars(endpoint.data() + colon + 1, last, port);
  if (error != std::errc{} || end != last || port < 1 || rank < 0 || rank > k_port_max ||
      port + rank > k_port_max)
    return std::unexpected(fmt::format("{}: no port for rank {}", endpoint, rank));
  return fmt::format("{}:{}", endpoint.substr(0, colon), port + rank);
}

}  // namespace weir::gateway::kv_events
