#include "gateway/config/redis_url.hpp"

#include <algorithm>
#include <charconv>

namespace weir::gateway::config {

namespace {

constexpr std::size_t k_host_bytes_max = 253;  // of a DNS name
constexpr std::size_t k_user_bytes_max = 256;
constexpr std::int64_t k_database_max = 1'000'000;

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_';
}

template <class T>
bool take_number(std::string_view text, T& out) {
  const char* const end = text.data() + text.size();
  const auto [stop, ec] = std::from_chars(text.data(), end, out);
  return !text.empty() && ec == std::errc() && stop == end;
}

bool take_host(std::string_view& rest, std::string& host) {
  if (rest.starts_with('[')) {
    const auto close = rest.find(']');
    if (close == rest.npos) return false;
    host = rest.substr(1, close - 1);
    rest.remove_prefix(close + 1);
    return !host.empty() && host.find_first_not_of("0123456789abcdefABCDEF:.") == host.npos;
  }
  host = rest.substr(0, rest.find_first_of(":/"));
  rest.remove_prefix(host.size());
  return !host.empty() && host.size() <= k_host_bytes_max &&
         std::all_of(host.begin(), host.end(), is_name_char);
}

}  // namespace

std::expected<redis_url, std::string> parse_redis_url(std::string_view text) {
  redis_url out;
  std::string_view rest = text;
  out.tls = rest.starts_with("rediss://");
  if (!out.tls && !rest.starts_with("redis://")) {
    return std::unexpected("does not start with redis:// or rediss://");
  }
  rest.remove_prefix(rest.find("://") + 3);
  if (const auto at = rest.rfind('@'); at != rest.npos) {
    out.user = rest.substr(0, at);
    rest.remove_prefix(at + 1);
    if (out.user.find(':') != out.user.npos) {
      return std::unexpected("must not hold a password; it belongs in password_file");
    }
    if (out.user.empty() || out.user.size() > k_user_bytes_max ||
        !std::all_of(out.user.begin(), out.user.end(), is_name_char)) {
      return std::unexpected("has a user name with other characters than letters, digits and -._");
    }
  }
  if (!take_host(rest, out.host)) return std::unexpected("names no host");
  if (rest.starts_with(':')) {
    const auto port = rest.substr(1, rest.find('/') == rest.npos ? rest.npos : rest.find('/') - 1);
    if (!take_number(port, out.port) || out.port == 0) return std::unexpected("has no port from 1 to 65535");
    rest.remove_prefix(port.size() + 1);
  }
  if (rest.empty() || rest == "/") return out;
  if (rest.front() != '/' || !take_number(rest.substr(1), out.database) || out.database < 0 ||
      out.database > k_database_max) {
    return std::unexpected("ends in something else than /NUMBER of a database");
  }
  return out;
}

}  // namespace weir::gateway::config
