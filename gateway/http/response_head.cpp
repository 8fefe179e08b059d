#include "gateway/http/response_head.hpp"

#include <algorithm>
#include <array>
#include <boost/beast/http/status.hpp>
#include <charconv>

#include "gateway/http/limits.hpp"
#include "gateway/http/syntax.hpp"

namespace weir::gateway::http {
namespace {

constexpr std::array<std::string_view, 7> k_session_headers{
    "content-length", "transfer-encoding", "connection", "content-type", "date", "x-request-id", "trailer"};

void append_number(std::string& out, std::size_t value) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

std::optional<std::string> fault_of(std::string_view name, std::string_view value) {
  if (!is_token(name)) return "a response header name that is no token";
  const bool ours = std::any_of(k_session_headers.begin(), k_session_headers.end(),
                                [name](std::string_view s) { return iequals(s, name); });
  if (ours) return "a response header that only the session sets: " + std::string(name);
  if (!is_field_value(value)) return "control bytes in the response header " + std::string(name);
  return std::nullopt;
}

}  // namespace

bool status_has_body(int status) noexcept {
  return status >= 200 && status != 204 && status != 304;
}

std::expected<std::string, std::string> format_head(const response_head& head, const header_list& headers) {
  using kind = response_head::body_kind;
  if (head.status < 200 || head.status > 599) return std::unexpected("a final status outside 200..599");
  if (!is_field_value(head.content_type)) return std::unexpected("control bytes in the content type");
  std::string out;
  out.reserve(384);
  out.append("HTTP/1.1 ");
  append_number(out, static_cast<std::size_t>(head.status));
  const auto reason = boost::beast::http::obsolete_reason(boost::beast::http::int_to_status(head.status));
  out.append(" ").append(reason.data(), reason.size()).append("\r\n");
  append_field(out, "date", head.date);
  if (!head.content_type.empty() && head.body != kind::none)
    append_field(out, "content-type", head.content_type);
  if (head.body == kind::sized) {
    out.append("content-length: ");
    append_number(out, head.content_length);
    out.append("\r\n");
  } else if (head.body == kind::chunked) {
    append_field(out, "transfer-encoding", "chunked");
  }
  append_field(out, "x-request-id", head.request_id);
  for (const auto& [name, value] : headers) {
    if (auto fault = fault_of(name, value)) return std::unexpected(*fault);
    append_field(out, name, value);
  }
  if (head.close) {
    append_field(out, "connection", "close");
  } else if (head.http_1_0) {
    append_field(out, "connection", "keep-alive");
  }
  out.append("\r\n");
  return out;
}

std::string format_date(std::time_t now) {
  constexpr std::array<const char*, 7> k_days{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<const char*, 12> k_months{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                 "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  // strftime would follow the locale for names.
  std::string out = k_days[static_cast<std::size_t>(utc.tm_wday)];
  std::strftime(text.data(), text.size(), ", %d ", &utc);
  out.append(text.data()).append(k_months[static_cast<std::size_t>(utc.tm_mon)]);
  std::strftime(text.data(), text.size(), " %Y %H:%M:%S GMT", &utc);
  return out.append(text.data());
}

bool is_request_id(std::string_view id) noexcept {
  const auto allowed = [](char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' ||
           c == '-';
  };
  return !id.empty() && id.size() <= k_request_id_bytes_max && std::all_of(id.begin(), id.end(), allowed);
}

}  // namespace weir::gateway::http
