#include "gateway/http/reply_parser.hpp"

#include <algorithm>
#include <utility>

#include "gateway/http/limits.hpp"

namespace weir::gateway::http {

field_view reply_parser::field(std::size_t index, std::string_view buffer) const noexcept {
  const field_span& at = fields_[index];
  return {buffer.substr(at.name_begin, at.name_bytes), buffer.substr(at.value_begin, at.value_bytes)};
}

void reply_parser::reset() noexcept {
  auto fields = std::move(fields_);
  fields.clear();
  *this = reply_parser{};
  fields_ = std::move(fields);
}

parse_state reply_parser::parse(std::string_view buffer) {
  while (!complete_ && reason_.empty() && scanned_ < buffer.size()) {
    const std::string_view left = buffer.substr(scanned_);
    const std::size_t newline = std::min(left.find('\n'), left.size());
    scanned_ += newline;
    if (scanned_ >= k_reply_head_bytes_max) {
      reason_ = "a head of more than 64 KiB";
      break;
    }
    if (newline == left.size()) break;
    if (scanned_ == line_begin_ || buffer[scanned_ - 1] != '\r') {
      reason_ = "a bare LF in the head";
      break;
    }
    const std::string_view line = buffer.substr(line_begin_, scanned_ - 1 - line_begin_);
    line_begin_ = ++scanned_;
    if (const verdict refused = take_line(buffer, line)) reason_ = *refused;
  }
  if (!reason_.empty()) return parse_state::reject;
  return complete_ ? parse_state::ok : parse_state::need_more;
}

reply_parser::verdict reply_parser::take_line(std::string_view buffer, std::string_view line) {
  if (std::any_of(line.begin(), line.end(), is_control)) return "a control character in the head";
  if (!std::exchange(status_seen_, true)) return take_status_line(line);
  if (!line.empty()) return take_field(buffer, line);
  complete_ = true;
  return finish();
}

reply_parser::verdict reply_parser::take_status_line(std::string_view line) {
  constexpr std::string_view k_version = "HTTP/1.";
  constexpr std::size_t k_status_end = 12;  // "HTTP/1.1 200"
  if (line.size() < k_status_end || !line.starts_with(k_version) || (line[7] != '0' && line[7] != '1') ||
      line[8] != ' ' || !std::all_of(line.begin() + 9, line.begin() + k_status_end, is_digit)) {
    return "a malformed status line";
  }
  // A missing space before an empty reason is common and has one meaning only.
  if (line.size() > k_status_end && line[k_status_end] != ' ') return "a malformed status line";
  http_1_0_ = line[7] == '0';
  status_ = (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
  if (status_ < 100 || status_ > 599) return "a status outside 100 to 599";
  if (status_ == 101) return "a change of protocol that nobody asked for";
  return {};
}

reply_parser::verdict reply_parser::take_field(std::string_view buffer, std::string_view line) {
  const auto parsed = parse_field_line(line);
  if (!parsed) return parsed.error().reason;
  if (fields_.size() == k_reply_fields_max) return "more than 200 fields";
  const auto [name, value] = *parsed;
  const auto offset = [&](std::string_view part) {
    return static_cast<std::uint32_t>(part.data() - buffer.data());
  };
  fields_.push_back({offset(name), static_cast<std::uint32_t>(name.size()), offset(value),
                     static_cast<std::uint32_t>(value.size())});
  if (iequals(name, "content-length")) {
    if (content_length_) return "two Content-Length fields";
    content_length_ = parse_content_length(value);
    if (!content_length_) return "a Content-Length that is not a number below 2^63";
  } else if (iequals(name, "transfer-encoding")) {
    if (coding_) return "two Transfer-Encoding fields";
    coding_ = parse_transfer_encoding(value);
    if (coding_ != coding::chunked) return "a transfer coding other than chunked";
  } else if (iequals(name, "connection")) {
    if (!read_connection_options(value, connection_)) return "a malformed Connection field";
  }
  return {};
}

reply_parser::verdict reply_parser::finish() {
  if (coding_ && content_length_) return "both Transfer-Encoding and Content-Length";
  if (coding_ && http_1_0_) return "Transfer-Encoding in HTTP/1.0";
  const bool bodiless = status_ < 200 || status_ == 204 || status_ == 304;
  if (bodiless) {
    framing_ = reply_framing::none;
  } else if (coding_) {
    framing_ = reply_framing::chunked;
  } else {
    framing_ = content_length_ ? reply_framing::content_length : reply_framing::to_close;
  }
  // A body announced where none can be may follow all the same, and would pass for the next reply.
  const bool contradicts = bodiless && status_ != 304 && (coding_ || content_length() > 0);
  keep_alive_ = framing_ != reply_framing::to_close && !contradicts && !connection_.close &&
                (!http_1_0_ || connection_.keep_alive);
  return {};
}

}  // namespace weir::gateway::http
