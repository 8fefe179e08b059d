#include "gateway/http/head_parser.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "gateway/http/limits.hpp"

namespace weir::gateway::http {
namespace {

std::unexpected<rejection> refuse(int status, std::string_view reason) {
  return std::unexpected(rejection{status, reason});
}

constexpr std::array<std::pair<std::string_view, request_method>, 7> k_methods{{
    {"GET", request_method::get},
    {"POST", request_method::post},
    {"HEAD", request_method::head},
    {"OPTIONS", request_method::options},
    {"PUT", request_method::put},
    {"PATCH", request_method::patch},
    {"DELETE", request_method::delete_},
}};

// What a percent-encoded byte may not stand for: NUL anywhere; in the path also the separators '/' and '\'.
std::expected<void, rejection> check_percent(std::string_view target, std::size_t at, bool in_query) {
  if (at + 2 >= target.size()) return refuse(400, "an incomplete percent-encoding in the target");
  const int high = hex_digit(target[at + 1]);
  const int low = hex_digit(target[at + 2]);
  if (high < 0 || low < 0) return refuse(400, "a malformed percent-encoding in the target");
  const int byte = high * 16 + low;
  if (byte == 0) return refuse(400, "an encoded NUL in the target");
  if (!in_query && (byte == '/' || byte == '\\')) return refuse(400, "an encoded slash in the path");
  return {};
}

std::expected<void, rejection> check_target_chars(std::string_view target) {
  bool in_query = false;
  for (std::size_t i = 0; i < target.size(); ++i) {
    const auto c = static_cast<unsigned char>(target[i]);
    if (c <= 0x20 || c >= 0x7f) return refuse(400, "a byte outside printable ASCII in the target");
    if (c == '#') return refuse(400, "a fragment in the target");
    if (c == '\\') return refuse(400, "a backslash in the target");
    if (c == '?') in_query = true;
    if (c == '%') {
      if (auto checked = check_percent(target, i, in_query); !checked) return checked;
    }
  }
  return {};
}

}  // namespace

head_parser::span head_parser::span_of(std::string_view buffer, std::string_view part) noexcept {
  return {static_cast<std::uint32_t>(part.data() - buffer.data()), static_cast<std::uint32_t>(part.size())};
}

field_view head_parser::field(std::size_t index, std::string_view buffer) const noexcept {
  return {fields_[index].name.in(buffer), fields_[index].value.in(buffer)};
}

void head_parser::reset() noexcept {
  auto fields = std::move(fields_);
  fields.clear();
  *this = head_parser{};
  fields_ = std::move(fields);
}

parse_state head_parser::parse(std::string_view buffer) {
  while (!complete_ && !refused_ && scanned_ < buffer.size()) {
    step taken = take_byte(buffer);
    if (!taken) {
      refused_ = true;
      rejected_ = taken.error();
    }
  }
  if (refused_) return parse_state::reject;
  return complete_ ? parse_state::ok : parse_state::need_more;
}

head_parser::step head_parser::take_byte(std::string_view buffer) {
  const std::size_t at = scanned_;
  const char c = buffer[at];
  const bool after_cr = at > line_begin_ && buffer[at - 1] == '\r';
  if (at >= k_head_bytes_max) return refuse(431, "a head of more than 32 KiB");
  if (c == '\n') {
    if (!after_cr) return refuse(400, "a bare LF in the head");
    ++scanned_;
    const std::string_view line = buffer.substr(line_begin_, at - 1 - line_begin_);
    line_begin_ = scanned_;
    return take_line(buffer, line);
  }
  if (after_cr) return refuse(400, "a bare CR in the head");
  if (c != '\r' && is_control(c)) return refuse(400, "a control character in the head");
  if (!request_line_seen_ && c != '\r' && at - line_begin_ >= k_request_line_bytes_max) {
    const std::string_view line = buffer.substr(line_begin_, at - line_begin_);
    if (line.find(' ') > k_method_bytes_max) return refuse(400, "a request line without a method");
    return refuse(414, "a target of more than 8000 bytes");
  }
  ++scanned_;
  return {};
}

head_parser::step head_parser::take_line(std::string_view buffer, std::string_view line) {
  if (request_line_seen_) {
    if (!line.empty()) return take_field(buffer, line);
    complete_ = true;
    return finish();
  }
  if (!line.empty()) return take_request_line(buffer, line);
  if (++empty_lines_ > k_leading_empty_lines_max) return refuse(400, "empty lines before the request line");
  return {};
}

head_parser::step head_parser::take_request_line(std::string_view buffer, std::string_view line) {
  request_line_seen_ = true;
  if (line.front() == ' ') return refuse(400, "a space before the method");
  if (line.find('\t') != std::string_view::npos) return refuse(400, "a tab in the request line");
  if (std::count(line.begin(), line.end(), ' ') != 2) {
    return refuse(400, "a request line that is not 'method SP target SP version'");
  }
  const std::size_t first = line.find(' ');
  const std::size_t second = line.find(' ', first + 1);
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, second - first - 1);
  if (!is_token(method)) return refuse(400, "a method with a character that methods may not have");
  if (target.empty()) return refuse(400, "an empty target");
  if (auto taken = take_version(line.substr(second + 1)); !taken) return taken;
  if (auto taken = take_method(method); !taken) return taken;
  return take_target(buffer, target);
}

head_parser::step head_parser::take_version(std::string_view version) {
  constexpr std::string_view k_prefix = "HTTP/";
  const bool well_formed = version.size() == 8 && version.starts_with(k_prefix) && is_digit(version[5]) &&
                           version[6] == '.' && is_digit(version[7]);
  if (!well_formed) return refuse(400, "a malformed HTTP version");
  const char major = version[5];
  if (major == '0' || major == '2') return refuse(400, "an HTTP version that is not spoken in this form");
  if (major != '1') return refuse(505, "an HTTP version other than 1.1 and 1.0");
  if (version[7] > '1') return refuse(400, "an HTTP/1 version other than 1.1 and 1.0");
  minor_ = static_cast<std::uint8_t>(version[7] - '0');
  return {};
}

head_parser::step head_parser::take_method(std::string_view method) {
  for (const auto& [name, value] : k_methods) {
    if (method == name) {
      method_ = value;
      return {};
    }
  }
  if (method == "CONNECT" || method == "TRACE") return refuse(405, "CONNECT and TRACE are not served");
  return refuse(501, "an unknown method");
}

head_parser::step head_parser::take_target(std::string_view buffer, std::string_view target) {
  if (target.size() > k_target_bytes_max) return refuse(414, "a target of more than 8000 bytes");
  if (target == "*") {
    if (method_ != request_method::options)
      return refuse(400, "the target '*' with a method other than OPTIONS");
  } else if (target.front() != '/') {
    return refuse(400, "a target that does not start with '/' (absolute form is not accepted)");
  }
  if (auto checked = check_target_chars(target); !checked) return checked;
  const std::size_t mark = target.find('?');
  path_ = span_of(buffer, target.substr(0, mark));
  query_ = mark == std::string_view::npos ? span{} : span_of(buffer, target.substr(mark + 1));
  return {};
}

head_parser::step head_parser::take_field(std::string_view buffer, std::string_view line) {
  const auto parsed = parse_field_line(line);
  if (!parsed) return std::unexpected(parsed.error());
  if (fields_.size() == k_head_fields_max) return refuse(431, "more than 100 fields");
  const auto [name, value] = *parsed;
  fields_.push_back({span_of(buffer, name), span_of(buffer, value)});
  if (iequals(name, "content-length")) return take_content_length(value);
  if (iequals(name, "transfer-encoding")) return take_transfer_encoding(value);
  if (iequals(name, "connection")) return take_connection(value);
  if (iequals(name, "host")) {
    if (++host_count_ > 1) return refuse(400, "two Host fields");
    if (!is_host(value)) return refuse(400, "a malformed Host");
  } else if (iequals(name, "expect")) {
    expect_unknown_ = expect_unknown_ || expect_seen_ || !iequals(value, "100-continue");
    expect_seen_ = true;
  }
  return {};
}

head_parser::step head_parser::take_content_length(std::string_view value) {
  if (content_length_) return refuse(400, "two Content-Length fields");
  content_length_ = parse_content_length(value);
  if (!content_length_) return refuse(400, "a Content-Length that is not a decimal number below 2^63");
  return {};
}

head_parser::step head_parser::take_transfer_encoding(std::string_view value) {
  if (coding_) return refuse(400, "two Transfer-Encoding fields");
  coding_ = parse_transfer_encoding(value);
  if (coding_ == coding::malformed) return refuse(400, "a malformed Transfer-Encoding");
  return {};
}

head_parser::step head_parser::take_connection(std::string_view value) {
  if (!read_connection_options(value, connection_)) return refuse(400, "a malformed Connection field");
  return {};
}

head_parser::step head_parser::finish() {
  if (host_count_ == 0 && !http_1_0()) return refuse(400, "no Host field");
  if (auto framed = finish_framing(); !framed) return framed;
  if (expect_unknown_) return refuse(417, "an Expect other than 100-continue");
  // RFC 9110 section 10.1.1: an HTTP/1.0 client cannot understand 100 Continue.
  expect_continue_ = expect_seen_ && !http_1_0() && framing_ != body_framing::none;
  keep_alive_ = !connection_.close && (!http_1_0() || connection_.keep_alive);
  return {};
}

head_parser::step head_parser::finish_framing() {
  if (coding_) {
    if (content_length_) return refuse(400, "both Transfer-Encoding and Content-Length");
    if (http_1_0()) return refuse(400, "Transfer-Encoding in HTTP/1.0");
    if (coding_ == coding::unknown) return refuse(501, "a transfer coding other than chunked");
    framing_ = body_framing::chunked;
  } else if (content_length_.value_or(0) > 0) {
    framing_ = body_framing::content_length;
  }
  const bool bodiless =
      method_ == request_method::get || method_ == request_method::head || method_ == request_method::delete_;
  if (bodiless && framing_ != body_framing::none) return refuse(400, "a body on GET, HEAD or DELETE");
  return {};
}

}  // namespace weir::gateway::http
