#include "loadtest/endpoint.hpp"

#include <fmt/format.h>

#include <boost/asio/ip/address.hpp>
#include <charconv>

namespace weir::loadtest {

std::expected<boost::asio::ip::tcp::endpoint, std::string> parse_endpoint(std::string_view text) {
  const auto fault = [&] { return std::unexpected(fmt::format("'{}' is not ADDRESS:PORT", text)); };
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return fault();
  auto host = text.substr(0, colon);
  const auto digits = text.substr(colon + 1);
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size()) return fault();
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host == "localhost") host = "127.0.0.1";
  boost::system::error_code unreadable;
  const auto address = boost::asio::ip::make_address(std::string(host), unreadable);
  if (unreadable) return fault();
  return boost::asio::ip::tcp::endpoint(address, port);
}

std::expected<http_address, std::string> parse_http_url(std::string_view url) {
  constexpr std::string_view k_scheme = "http://";
  if (!url.starts_with(k_scheme))
    return std::unexpected(fmt::format("'{}' does not start with http://", url));
  auto authority = url.substr(k_scheme.size());
  authority = authority.substr(0, authority.find('/'));
  const auto colon = authority.rfind(':');
  const bool has_port = colon != std::string_view::npos;
  http_address out{std::string(authority.substr(0, colon)),
                   has_port ? std::string(authority.substr(colon + 1)) : "80"};
  if (out.host.empty() || out.port.empty()) return std::unexpected(fmt::format("'{}' names no host", url));
  return out;
}

}  // namespace weir::loadtest
