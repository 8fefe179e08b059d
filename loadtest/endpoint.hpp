// Addresses of a command line: ADDRESS:PORT, and http://HOST[:PORT]. Pure; any thread.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <expected>
#include <string>
#include <string_view>

namespace weir::loadtest {

// A numeric address, IPv6 in brackets, or "localhost"; port 0 is allowed. The error is a sentence.
std::expected<boost::asio::ip::tcp::endpoint, std::string> parse_endpoint(std::string_view text);

struct http_address {
  std::string host;
  std::string port;
};

// What follows the authority is left out; only http://. The error is a sentence.
std::expected<http_address, std::string> parse_http_url(std::string_view url);

}  // namespace weir::loadtest
