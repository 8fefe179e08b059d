// ADDRESS:PORT of a command line. Pure; any thread.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <expected>
#include <string>
#include <string_view>

namespace weir::loadtest {

// A numeric address, IPv6 in brackets, or "localhost"; port 0 is allowed. The error is a sentence.
std::expected<boost::asio::ip::tcp::endpoint, std::string> parse_endpoint(std::string_view text);

}  // namespace weir::loadtest
