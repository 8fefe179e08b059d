// Character classes and small grammars of RFC 9110 and RFC 9112 that the head parser and the chunked decoder
// share. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string_view>

namespace weir::gateway::http {

// Why a message was refused. `reason` is for the client's engineer and always points at a literal.
struct rejection {
  int status = 400;
  std::string_view reason;
  friend bool operator==(const rejection&, const rejection&) = default;
};

bool is_token_char(char c) noexcept;  // tchar
bool is_digit(char c) noexcept;
bool is_control(char c) noexcept;                               // below 0x20 without HTAB, or 0x7f
bool is_token(std::string_view s) noexcept;                     // 1*tchar
bool iequals(std::string_view a, std::string_view b) noexcept;  // ASCII case, reads exactly both views
std::string_view trim_ows(std::string_view s) noexcept;         // SP and HTAB at both ends, nothing else
bool is_field_value(
    std::string_view s) noexcept;  // neither control bytes nor line ends: safe to send as a value

// -1 where c is no hexadecimal digit.
int hex_digit(char c) noexcept;

struct field_view {
  std::string_view name;
  std::string_view value;  // trimmed
};

// One field line without its CRLF: token ":" OWS value OWS. The caller has refused control bytes already.
std::expected<field_view, rejection> parse_field_line(std::string_view line) noexcept;

// Whether `name` would be taken for a framing or credential field by a peer that treats '_' as '-', and holds
// a '_'.
bool is_disguised_field(std::string_view name) noexcept;

// Fields that must never come in a trailer: framing, routing, credentials and content description.
bool is_forbidden_trailer(std::string_view name) noexcept;

// The fixed list of fields that end at this hop. What a client lists in Connection is never consulted.
bool is_hop_by_hop(std::string_view name) noexcept;

// host [ ":" port ] with a DNS name, an IPv4 address or a bracketed IPv6 address.
bool is_host(std::string_view s) noexcept;

// Transfer-Encoding value: nothing where it is exactly "chunked", else why not.
enum class coding { chunked, unknown, malformed };
coding parse_transfer_encoding(std::string_view value) noexcept;

// Whether a Content-Type value names this type, whatever its case and parameters.
bool is_media_type(std::string_view value, std::string_view type) noexcept;

// A Content-Length value below 2^63: digits only, leading zeros allowed.
std::optional<std::uint64_t> parse_content_length(std::string_view value) noexcept;

struct connection_options {
  bool close = false;
  bool keep_alive = false;
};

// Adds what one Connection field says; false where it is malformed.
bool read_connection_options(std::string_view value, connection_options& out) noexcept;

}  // namespace weir::gateway::http
