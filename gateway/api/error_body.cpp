#include "gateway/api/error_body.hpp"

#include "gateway/api/json.hpp"
#include "gateway/api/logprobs_json.hpp"

namespace weir::gateway::api {

namespace {

constexpr std::int64_t k_retry_ms = 1000;  // where nothing better is known
constexpr std::int64_t k_retry_patience_ms = 60'000;

void append_or_null(std::string& out, std::string_view text) {
  if (text.empty()) {
    out += "null";
  } else {
    append_quoted(out, text);
  }
}

std::string to_json(std::string_view message, std::string_view type, std::string_view param,
                    std::string_view code) {
  std::string out = R"({"error":{"message":)";
  append_quoted(out, valid_utf8(message));  // a client's text in it may be cut within a character
  out += R"(,"type":)";
  append_quoted(out, type);
  out += R"(,"param":)";
  append_or_null(out, param);
  out += R"(,"code":)";
  append_or_null(out, code);
  out += "}}";
  return out;
}

std::string_view code_of(int status) {
  switch (status) {
    case 405:
      return "method_not_allowed";
    case 408:
      return "request_timeout";
    case 413:
      return "request_too_large";
    case 414:
      return "uri_too_long";
    case 417:
      return "expectation_failed";
    case 431:
      return "headers_too_large";
    case 500:
      return "internal_error";
    case 501:
      return "not_implemented";
    case 503:
      return "overloaded";
    case 505:
      return "http_version_not_supported";
    default:
      return "bad_http";
  }
}

// SDKs prefer milliseconds, and wait by themselves for at most a minute: a longer time is told and not waited
// for.
void append_retry(http::header_list& out, const error& e, const errc_info& row) {
  const std::int64_t wait_ms = e.retry_after_ms > 0 ? e.retry_after_ms : row.status == 503 ? k_retry_ms : 0;
  if (wait_ms > 0) out.emplace_back("retry-after", std::to_string((wait_ms + 999) / 1000));
  if (e.retry_after_ms > 0) out.emplace_back("retry-after-ms", std::to_string(wait_ms));
  const bool limit = row.status == 429 || e.code == errc::limit_too_small;
  if (!limit) return;
  out.emplace_back("x-should-retry", row.retryable && wait_ms <= k_retry_patience_ms ? "true" : "false");
}

}  // namespace

std::string error_json(const error& e) {
  const auto& row = info(e.code);
  return to_json(e.message, row.type, e.param, row.code);
}

std::string error_json(int status, std::string_view message) {
  return to_json(message, status >= 500 ? "server_error" : "invalid_request_error", {}, code_of(status));
}

http::reply error_reply(const error& e) {
  const auto& row = info(e.code);
  http::reply r{.status = row.status, .body = error_json(e)};
  append_retry(r.headers, e, row);
  if (row.status == 401) r.headers.emplace_back("www-authenticate", "Bearer");
  return r;
}

}  // namespace weir::gateway::api
