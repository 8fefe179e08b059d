// The address of an HTTP target as configured: scheme, host, port and the path in front of every endpoint.
// Strict: no credentials, query or fragment. Values; any thread.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace weir::gateway::config {

struct base_url {
  bool tls = false;
  std::string host;  // DNS name or numeric address, IPv6 without brackets
  std::uint16_t port = 0;
  std::string path;       // without a final slash; "/v1" where none is written
  std::string authority;  // as the Host header has it
};

// The error says what is wrong with `text`.
std::expected<base_url, std::string> parse_base_url(std::string_view text);

}  // namespace weir::gateway::config
