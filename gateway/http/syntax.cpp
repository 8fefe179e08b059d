#include "gateway/http/syntax.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>

#include "gateway/http/limits.hpp"

namespace weir::gateway::http {
namespace {

constexpr bool is_alnum(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

constexpr auto k_token_chars = [] {
  std::array<bool, 256> table{};
  for (int c = 0; c < 256; ++c)
    table[static_cast<std::size_t>(c)] = c < 128 && is_alnum(static_cast<char>(c));
  for (char c : std::string_view("!#$%&'*+-.^_`|~")) table[static_cast<unsigned char>(c)] = true;
  return table;
}();

constexpr char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

template <std::size_t N>
bool is_any_of(std::string_view name, const std::array<std::string_view, N>& list) noexcept {
  return std::any_of(list.begin(), list.end(), [name](std::string_view s) { return iequals(s, name); });
}

constexpr std::array<std::string_view, 20> k_guarded_fields{"content-length",
                                                            "transfer-encoding",
                                                            "host",
                                                            "connection",
                                                            "authorization",
                                                            "expect",
                                                            "te",
                                                            "trailer",
                                                            "upgrade",
                                                            "proxy-authorization",
                                                            "proxy-connection",
                                                            "keep-alive",
                                                            "content-type",
                                                            "content-encoding",
                                                            "x-api-key",
                                                            "api-key",
                                                            "cookie",
                                                            "forwarded",
                                                            "x-forwarded-for",
                                                            "x-request-id"};

constexpr std::array<std::string_view, 9> k_hop_by_hop{"connection", "keep-alive",     "proxy-connection",
                                                       "te",         "trailer",        "transfer-encoding",
                                                       "upgrade",    "http2-settings", "expect"};

bool iequals_dashed(std::string_view name, std::string_view dashed) noexcept {
  if (name.size() != dashed.size()) return false;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i] == '_' ? '-' : lower(name[i]);
    if (c != dashed[i]) return false;
  }
  return true;
}

bool is_port(std::string_view s) noexcept {
  if (s.size() > 5 || !std::all_of(s.begin(), s.end(), is_digit)) return false;
  std::uint32_t port = 0;
  for (char c : s) port = port * 10 + static_cast<std::uint32_t>(c - '0');
  return port <= 65535;
}

bool is_ipv6(std::string_view s) noexcept {
  std::array<char, INET6_ADDRSTRLEN> text{};
  // inet_pton stops at a zero.
  if (s.size() >= text.size() || s.find('\0') != s.npos) return false;
  std::memcpy(text.data(), s.data(), s.size());
  std::array<unsigned char, 16> address{};
  return inet_pton(AF_INET6, text.data(), address.data()) == 1;
}

bool is_dns_name(std::string_view s) noexcept {
  if (s.empty() || s.front() == '.' || s.size() > 255) return false;
  char previous = 0;
  for (char c : s) {
    if (!is_alnum(c) && c != '-' && c != '.' && c != '_') return false;
    if (c == '.' && previous == '.') return false;
    previous = c;
  }
  return true;
}

// The end of one transfer-parameter after its ';', or npos where it breaks the grammar.
std::size_t skip_parameter(std::string_view s, std::size_t i) noexcept {
  const auto skip_space = [&] {
    while (i < s.size() && (s[i] == ' ' || s[i] == '\t')) ++i;
  };
  const auto skip_token = [&] {
    const std::size_t begin = i;
    while (i < s.size() && is_token_char(s[i])) ++i;
    return i > begin;
  };
  skip_space();
  if (!skip_token()) return std::string_view::npos;
  skip_space();
  if (i == s.size() || s[i] != '=') return std::string_view::npos;
  ++i;
  skip_space();
  if (i == s.size() || s[i] != '"') return skip_token() ? i : std::string_view::npos;
  for (++i; i < s.size() && s[i] != '"'; ++i) {
    if (s[i] == '\\') ++i;
  }
  return i < s.size() ? i + 1 : std::string_view::npos;
}

}  // namespace

bool is_token_char(char c) noexcept {
  return k_token_chars[static_cast<unsigned char>(c)];
}
bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

bool is_control(char c) noexcept {
  const auto u = static_cast<unsigned char>(c);
  return (u < 0x20 && c != '\t') || u == 0x7f;
}

bool is_token(std::string_view s) noexcept {
  return !s.empty() && std::all_of(s.begin(), s.end(), is_token_char);
}

bool iequals(std::string_view a, std::string_view b) noexcept {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view trim_ows(std::string_view s) noexcept {
  const auto is_ows = [](char c) { return c == ' ' || c == '\t'; };
  while (!s.empty() && is_ows(s.front())) s.remove_prefix(1);
  while (!s.empty() && is_ows(s.back())) s.remove_suffix(1);
  return s;
}

bool is_field_value(std::string_view s) noexcept {
  return std::none_of(s.begin(), s.end(), is_control);
}

int hex_digit(char c) noexcept {
  if (is_digit(c)) return c - '0';
  const char l = lower(c);
  return l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}

std::expected<field_view, rejection> parse_field_line(std::string_view line) noexcept {
  const auto refuse = [](std::string_view why) { return std::unexpected(rejection{400, why}); };
  if (line.front() == ' ' || line.front() == '\t')
    return refuse("a folded field line (obs-fold) or leading space");
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return refuse("a field line without a colon");
  const std::string_view name = line.substr(0, colon);
  if (name.empty()) return refuse("an empty field name");
  if (name.back() == ' ' || name.back() == '\t') return refuse("white space between field name and colon");
  if (!is_token(name)) return refuse("a field name with a character that names may not have");
  if (is_disguised_field(name)) return refuse("a field name with '_' in place of '-'");
  return field_view{name, trim_ows(line.substr(colon + 1))};
}

bool is_disguised_field(std::string_view name) noexcept {
  if (name.find('_') == std::string_view::npos) return false;
  return std::any_of(k_guarded_fields.begin(), k_guarded_fields.end(),
                     [name](std::string_view s) { return iequals_dashed(name, s); });
}

bool is_forbidden_trailer(std::string_view name) noexcept {
  constexpr std::string_view k_content = "content-";
  return is_any_of(name, k_guarded_fields) || is_any_of(name, k_hop_by_hop) ||
         iequals(name.substr(0, k_content.size()), k_content);
}

bool is_hop_by_hop(std::string_view name) noexcept {
  return is_any_of(name, k_hop_by_hop);
}

bool is_host(std::string_view s) noexcept {
  if (s.empty() || s.size() > k_host_bytes_max) return false;
  std::string_view rest;
  if (s.front() == '[') {
    const std::size_t end = s.find(']');
    if (end == std::string_view::npos || !is_ipv6(s.substr(1, end - 1))) return false;
    rest = s.substr(end + 1);
  } else {
    const std::size_t end = std::min(s.find(':'), s.size());
    if (!is_dns_name(s.substr(0, end))) return false;
    rest = s.substr(end);
  }
  return rest.empty() || (rest.front() == ':' && is_port(rest.substr(1)));
}

coding parse_transfer_encoding(std::string_view value) noexcept {
  if (iequals(value, "chunked")) return coding::chunked;
  bool after_chunked = false;
  std::size_t i = 0;
  while (true) {
    const std::size_t begin = i;
    while (i < value.size() && is_token_char(value[i])) ++i;
    const std::string_view name = value.substr(begin, i - begin);
    // RFC 9112 section 6.1: chunked comes once and last, and has no parameters.
    if (name.empty() || after_chunked) return coding::malformed;
    after_chunked = iequals(name, "chunked");
    const auto skip_space = [&] {
      while (i < value.size() && (value[i] == ' ' || value[i] == '\t')) ++i;
    };
    skip_space();
    while (i < value.size() && value[i] == ';') {
      if (after_chunked) return coding::malformed;
      i = skip_parameter(value, i + 1);
      if (i == std::string_view::npos) return coding::malformed;
      skip_space();
    }
    if (i == value.size()) return coding::unknown;
    if (value[i] != ',') return coding::malformed;
    ++i;
    skip_space();
  }
}

bool is_media_type(std::string_view value, std::string_view type) noexcept {
  return iequals(trim_ows(value.substr(0, value.find(';'))), type);
}

std::optional<std::uint64_t> parse_content_length(std::string_view value) noexcept {
  if (value.empty() || !std::all_of(value.begin(), value.end(), is_digit)) return std::nullopt;
  constexpr auto k_max = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::uint64_t length = 0;
  for (const char c : value) {
    const auto digit = static_cast<std::uint64_t>(c - '0');
    if (length > (k_max - digit) / 10) return std::nullopt;
    length = length * 10 + digit;
  }
  return length;
}

bool read_connection_options(std::string_view value, connection_options& out) noexcept {
  while (!value.empty()) {
    const std::size_t comma = std::min(value.find(','), value.size());
    const std::string_view option = trim_ows(value.substr(0, comma));
    if (!option.empty() && !is_token(option)) return false;
    out.close = out.close || iequals(option, "close");
    out.keep_alive = out.keep_alive || iequals(option, "keep-alive");
    value.remove_prefix(std::min(comma + 1, value.size()));
  }
  return true;
}

}  // namespace weir::gateway::http
