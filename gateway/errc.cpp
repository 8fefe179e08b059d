#include "gateway/errc.hpp"

#include <array>

namespace weir::gateway {

namespace {

constexpr std::string_view k_invalid = "invalid_request_error";
constexpr std::string_view k_server = "server_error";

struct row {
  errc code;
  errc_info info;
};

constexpr std::array k_table{
    row{errc::bad_request, {400, k_invalid, "", false}},
    row{errc::context_length, {400, k_invalid, "context_length_exceeded", false}},
    row{errc::unsupported, {400, k_invalid, "unsupported_feature", false}},
    row{errc::missing_key, {401, k_invalid, "invalid_api_key", false}},
    row{errc::invalid_key, {401, k_invalid, "invalid_api_key", false}},
    row{errc::requests_limited, {429, "requests", "rate_limit_exceeded", true}},
    row{errc::tokens_limited, {429, "tokens", "rate_limit_exceeded", true}},
    row{errc::budget_exhausted, {429, "insufficient_quota", "insufficient_quota", false}},
    row{errc::limit_too_small, {400, k_invalid, "request_exceeds_limit", false}},
    row{errc::ledger_unavailable, {503, k_server, "ledger_unavailable", true}},
    row{errc::forbidden, {403, k_invalid, "forbidden", false}},
    row{errc::model_not_found, {404, k_invalid, "model_not_found", false}},
    row{errc::key_not_found, {404, k_invalid, "key_not_found", false}},
    row{errc::conflict, {409, k_invalid, "conflict", false}},
    row{errc::misdirected, {421, k_invalid, "misdirected_request", false}},
    row{errc::unknown_url, {404, k_invalid, "unknown_url", false}},
    row{errc::method_not_allowed, {405, k_invalid, "method_not_allowed", false}},
    row{errc::body_too_large, {413, k_invalid, "request_too_large", false}},
    row{errc::unsupported_media, {415, k_invalid, "unsupported_media_type", false}},
    row{errc::body_timeout, {408, k_invalid, "request_timeout", true}},
    row{errc::bad_framing, {400, k_invalid, "bad_framing", false}},
    row{errc::headers_too_large, {431, k_invalid, "headers_too_large", false}},
    row{errc::overloaded, {503, k_server, "overloaded", true}},
    row{errc::draining, {503, k_server, "draining", true}},
    row{errc::upstream_failed, {502, "upstream_error", "upstream_failed", true}},
    row{errc::stream_interrupted, {502, "upstream_error", "stream_interrupted", true}},
    row{errc::deadline_exceeded, {504, k_server, "deadline_exceeded", true}},
    row{errc::client_gone, {499, k_invalid, "client_closed_request", false}},
    row{errc::internal, {500, k_server, "internal_error", true}},
};

constexpr bool rows_in_order() {
  for (std::size_t i = 0; i < k_table.size(); ++i) {
    if (static_cast<std::size_t>(k_table[i].code) != i) return false;
  }
  return k_table.size() == static_cast<std::size_t>(errc::internal) + 1;
}
static_assert(rows_in_order(), "one row per errc, in the enum's order");

}  // namespace

const errc_info& info(errc code) noexcept {
  return k_table[static_cast<std::size_t>(code)].info;
}

}  // namespace weir::gateway
