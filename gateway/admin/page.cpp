#include "gateway/admin/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "gateway/http/syntax.hpp"

namespace weir::gateway::admin {

namespace {

constexpr std::size_t k_cursor_bytes_max = 2048;

std::optional<std::string> from_cursor(std::string_view hex) {
  if (hex.empty() || hex.size() % 2 != 0 || hex.size() > k_cursor_bytes_max) return std::nullopt;
  std::string out;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const int high = http::hex_digit(hex[i]);
    const int low = http::hex_digit(hex[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    out.push_back(static_cast<char>(high * 16 + low));
  }
  return out;
}

result<void> read_limit(std::string_view value, std::size_t& out) {
  const char* const end = value.data() + value.size();
  const auto [stop, ec] = std::from_chars(value.data(), end, out);
  if (ec == std::errc() && stop == end && out >= 1 && out <= k_page_max) return {};
  return fail(errc::bad_request, fmt::format("'limit' must be a whole number from 1 to {}", k_page_max),
              "limit");
}

}  // namespace

result<page> read_page(std::string_view query) {
  page out;
  bool has_limit = false;
  bool has_cursor = false;
  while (!query.empty()) {
    const auto part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(part.size() + 1, query.size()));
    const auto equals = part.find('=');
    const auto name = part.substr(0, equals);
    const auto value = equals == part.npos ? std::string_view() : part.substr(equals + 1);
    if (name == "limit" && !std::exchange(has_limit, true)) {
      if (auto read = read_limit(value, out.limit); !read) return std::unexpected(read.error());
    } else if (name == "cursor" && !std::exchange(has_cursor, true)) {
      auto place = from_cursor(value);
      if (!place) return fail(errc::bad_request, "'cursor' is not one of ours; begin without it", "cursor");
      out.after = std::move(*place);
    } else {
      return fail(errc::bad_request, "the query knows limit and cursor, each once");
    }
  }
  return out;
}

std::string to_cursor(std::string_view place) {
  std::string out;
  for (const char c : place) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

}  // namespace weir::gateway::admin
