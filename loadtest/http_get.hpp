// One HTTP GET over a connection of its own. Blocks its thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <string>

#include "loadtest/endpoint.hpp"

namespace weir::loadtest {

inline constexpr std::uint64_t k_get_bytes_max = 64ULL << 20;

struct http_answer {
  int status = 0;
  std::string body;
};

// `api_key`: empty: none is sent. The error says what failed on the way.
std::expected<http_answer, std::string> http_get(
    const http_address& at, const std::string& path, const std::string& api_key = {},
    std::chrono::milliseconds timeout = std::chrono::seconds(10));

}  // namespace weir::loadtest
