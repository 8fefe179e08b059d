// The bytes of a response head. What would break its framing is refused here, so no caller can split a
// response. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <ctime>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/http/exchange.hpp"

namespace weir::gateway::http {

struct response_head {
  enum class body_kind : std::uint8_t {
    none,      // 204 and 304: neither length nor body
    sized,     // content_length bytes, or none of them where the request was HEAD
    chunked,   // HTTP/1.1 stream
    to_close,  // HTTP/1.0 stream: ends with the connection
  };
  int status = 200;
  std::string_view content_type;  // empty: no such field
  std::string_view request_id;
  std::string_view date;
  body_kind body = body_kind::sized;
  std::size_t content_length = 0;
  bool http_1_0 = false;  // the request's version; the reply's line says HTTP/1.1 in either case
  bool close = false;
};

// Head with its final empty line, or what is wrong with a header: a name that is no token or belongs to the
// session, or a value with control bytes.
std::expected<std::string, std::string> format_head(const response_head& head, const header_list& headers);

bool status_has_body(int status) noexcept;

// IMF-fixdate of RFC 9110 section 5.6.7.
std::string format_date(std::time_t now);

// The client's id where it is 1..128 characters of [A-Za-z0-9._-].
bool is_request_id(std::string_view id) noexcept;

}  // namespace weir::gateway::http
