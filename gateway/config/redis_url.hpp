// The address of a Redis or Valkey server as configured: redis://[user@]host[:port][/db], rediss:// with TLS.
// Strict: no password (it belongs in a file), query or fragment. Values; any thread.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace weir::gateway::config {

struct redis_url {
  bool tls = false;
  std::string user;
  std::string host;  // IPv6 without brackets
  std::uint16_t port = 6379;
  std::int64_t database = 0;
};

// The error says what is wrong, and repeats nothing of `text`: it may hold a password.
std::expected<redis_url, std::string> parse_redis_url(std::string_view text);

}  // namespace weir::gateway::config
