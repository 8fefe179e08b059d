#include "gateway/config/base_url.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <charconv>

namespace weir::gateway::config {

namespace {

constexpr std::string_view k_default_path = "/v1";
constexpr std::size_t k_host_bytes_max = 253;  // of a DNS name

bool is_host_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_';
}

// Unreserved and sub-delimiters of RFC 3986 without the percent sign: an encoded path has two meanings.
bool is_path_char(char c) {
  constexpr std::string_view k_marks = "/-._~!$&'()*+,;=:@";
  return (is_host_char(c) && c != '_') || k_marks.find(c) != std::string_view::npos;
}

bool take_port(std::string_view text, std::uint16_t& out) {
  const char* const end = text.data() + text.size();
  const auto [stop, ec] = std::from_chars(text.data(), end, out);
  return !text.empty() && ec == std::errc() && stop == end && out > 0;
}

bool take_bracketed(std::string_view& authority, std::string& host) {
  const auto close = authority.find(']');
  if (close == std::string_view::npos) return false;
  boost::system::error_code ec;
  host = authority.substr(1, close - 1);
  const auto address = boost::asio::ip::make_address_v6(host, ec);
  authority.remove_prefix(close + 1);
  return !ec && address.scope_id() == 0;
}

bool take_name(std::string_view& authority, std::string& host) {
  host = authority.substr(0, authority.find(':'));
  authority.remove_prefix(host.size());
  return !host.empty() && host.size() <= k_host_bytes_max && host.front() != '.' &&
         std::all_of(host.begin(), host.end(), is_host_char);
}

}  // namespace

std::expected<base_url, std::string> parse_base_url(std::string_view text) {
  base_url out;
  if (text.find('@') != std::string_view::npos) {
    return std::unexpected("must not hold credentials; a key belongs in api_key_file");
  }
  const auto scheme_end = text.find("://");
  const auto scheme = text.substr(0, scheme_end);
  if (scheme_end == std::string_view::npos || (scheme != "http" && scheme != "https")) {
    return std::unexpected(fmt::format("'{}' does not start with http:// or https://", text));
  }
  out.tls = scheme == "https";
  std::string_view rest = text.substr(scheme_end + 3);
  if (rest.find_first_of("?#") != std::string_view::npos) {
    return std::unexpected("must not hold a query or a fragment");
  }
  std::string_view authority = rest.substr(0, rest.find('/'));
  std::string_view path = rest.substr(authority.size());
  out.authority = authority;
  const bool host_ok =
      authority.starts_with('[') ? take_bracketed(authority, out.host) : take_name(authority, out.host);
  if (!host_ok) return std::unexpected(fmt::format("'{}' names no host", text));
  out.port = out.tls ? 443 : 80;
  if (!authority.empty() && (authority.front() != ':' || !take_port(authority.substr(1), out.port))) {
    return std::unexpected(fmt::format("'{}' has no port from 1 to 65535 behind its host", text));
  }
  while (path.ends_with('/')) path.remove_suffix(1);
  if (!std::all_of(path.begin(), path.end(), is_path_char) || path.find("//") != std::string_view::npos ||
      path.find("/.") != std::string_view::npos) {
    return std::unexpected(fmt::format("'{}' has a path with characters that need encoding", text));
  }
  for (const std::string_view endpoint : {"/chat/completions", "/completions", "/models"}) {
    if (path.ends_with(endpoint)) {
      return std::unexpected(fmt::format("'{}' ends in {}; write what comes before it", text, endpoint));
    }
  }
  out.path = path.empty() ? k_default_path : path;
  return out;
}

}  // namespace weir::gateway::config
