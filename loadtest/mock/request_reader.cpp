#include "loadtest/mock/request_reader.hpp"

#include <algorithm>
#include <cassert>
#include <charconv>

namespace weir::loadtest::mock {

namespace {

constexpr std::size_t k_kept_bytes_max = 4 << 10;      // of an idle connection's buffers, each
constexpr std::size_t k_reserved_bytes_max = 8 << 20;  // believed before the bytes are there
constexpr std::string_view k_token_marks = "!#$%&'*+-.^_`|~";

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || k_token_marks.contains(c);
  });
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

bool iequals(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, lower, lower);
}

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace

bool request_reader::fail(const char* reason, int status) {
  state_ = state::malformed;
  reason_ = reason;
  status_ = status;
  return false;
}

std::size_t request_reader::take(std::string_view bytes) {
  assert(state_ != state::complete && state_ != state::malformed);
  std::size_t used = 0;
  while (used < bytes.size() && state_ != state::complete && state_ != state::malformed) {
    const auto rest = bytes.substr(used);
    if (state_ == state::head) {
      used += take_head(rest);
    } else if (state_ == state::body || state_ == state::chunk_data) {
      used += take_body(rest);
    } else {
      used += take_line(rest);
    }
  }
  return used;
}

std::size_t request_reader::take_head(std::string_view bytes) {
  constexpr std::string_view k_end = "\r\n\r\n";
  if (line_.empty()) {
    const auto end = bytes.substr(0, k_head_bytes_max).find(k_end);
    if (end != std::string_view::npos) {
      parse_head(bytes.substr(0, end + 2));
      return end + k_end.size();
    }
  }
  const auto before = line_.size();
  line_ += bytes.substr(0, k_head_bytes_max + 1 - before);
  const auto end = line_.find(k_end, before < 3 ? 0 : before - 3);
  if (end == std::string::npos) {
    if (line_.size() > k_head_bytes_max) fail("the head is too long", 431);
    if (line_.find("\n\n", before < 1 ? 0 : before - 1) != std::string::npos) fail("a line ends without CR");
    return line_.size() - before;
  }
  const std::string head = std::move(line_);
  line_.clear();
  parse_head(std::string_view(head).substr(0, end + 2));
  return end + k_end.size() - before;
}

// `head` holds whole lines, each with its CRLF.
bool request_reader::parse_head(std::string_view head) {
  framing seen;
  bool first = true;
  while (!head.empty()) {
    const auto end = head.find("\r\n");
    const auto line = head.substr(0, end);
    head.remove_prefix(end + 2);
    const bool clean = std::ranges::none_of(
        line, [](char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f; });
    if (!clean) return fail("a control character in the head");
    if (!(first ? parse_request_line(line) : parse_field(line, seen))) return false;
    first = false;
  }
  if (seen.hosts > 1 || (seen.hosts == 0 && !http_1_0_)) return fail("not exactly one host");
  if (seen.chunked && seen.has_length) return fail("content-length beside transfer-encoding");
  if (seen.chunked && http_1_0_) return fail("transfer-encoding in HTTP/1.0");
  if (seen.chunked) {
    state_ = state::chunk_size;
  } else if (left_ > 0) {
    request_.body.reserve(std::min(left_, k_reserved_bytes_max) + k_body_padding_bytes);
    state_ = state::body;
  } else {
    request_.body.reserve(k_body_padding_bytes);
    state_ = state::complete;
  }
  return true;
}

bool request_reader::parse_request_line(std::string_view line) {
  const auto first = line.find(' ');
  const auto last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return fail("the request line has not three words");
  const auto method = line.substr(0, first);
  const auto target = line.substr(first + 1, last - first - 1);
  const auto version = line.substr(last + 1);
  if (!is_token(method)) return fail("the method is no token");
  if (!target.starts_with('/') || target.find_first_of(" \t#") != std::string_view::npos)
    return fail("the target is no path");
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return fail("the version is not HTTP/1.1");
  http_1_0_ = version == "HTTP/1.0";
  request_.keep_alive = !http_1_0_;
  request_.method = method;
  request_.target = target;
  return true;
}

bool request_reader::parse_field(std::string_view line, framing& seen) {
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) return fail("a field without a colon");
  const auto name = line.substr(0, colon);
  const auto value = trim(line.substr(colon + 1));
  if (!is_token(name)) return fail("a field name is no token");
  if (iequals(name, "host")) {
    ++seen.hosts;
  } else if (iequals(name, "content-length")) {
    return parse_length(value, seen);
  } else if (iequals(name, "transfer-encoding")) {
    if (seen.chunked || !iequals(value, "chunked")) return fail("a transfer-encoding other than one chunked");
    seen.chunked = true;
  } else if (iequals(name, "connection")) {
    if (iequals(value, "close")) request_.keep_alive = false;
    if (iequals(value, "keep-alive")) request_.keep_alive = true;
  } else if (iequals(name, "expect")) {
    if (!iequals(value, "100-continue")) return fail("an unknown expectation");
    expects_continue_ = true;
  } else if (iequals(name, "authorization")) {
    if (!request_.authorization.empty()) return fail("two authorizations");
    request_.authorization = value;
  } else if (iequals(name, "x-mock-fault")) {
    request_.fault = value;
  }
  return true;
}

bool request_reader::parse_length(std::string_view value, framing& seen) {
  if (seen.has_length) return fail("two content-lengths");
  seen.has_length = true;
  if (value.empty() || !std::ranges::all_of(value, is_digit)) return fail("content-length is no number");
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), left_);
  if (error != std::errc{} || left_ > k_body_bytes_max) return fail("the body is too long", 413);
  return true;
}

std::size_t request_reader::take_body(std::string_view bytes) {
  const auto part = bytes.substr(0, left_);
  auto& body = request_.body;
  if (body.capacity() < body.size() + part.size() + k_body_padding_bytes)
    body.reserve(std::max(2 * body.capacity(), body.size() + part.size() + k_body_padding_bytes));
  body += part;
  left_ -= part.size();
  if (left_ == 0) state_ = state_ == state::body ? state::complete : state::chunk_end;
  return part.size();
}

std::size_t request_reader::take_line(std::string_view bytes) {
  const auto end = bytes.find('\n');
  const auto part = bytes.substr(0, end == std::string_view::npos ? end : end + 1);
  if (line_.size() + part.size() > k_chunk_line_bytes_max) {
    fail("a chunk's line is too long");
    return part.size();
  }
  line_ += part;
  if (end == std::string_view::npos) return part.size();
  if (line_.ends_with("\r\n")) {
    const std::string line = std::move(line_);
    line_.clear();
    end_line(std::string_view(line).substr(0, line.size() - 2));
  } else {
    fail("a line ends without CR");
  }
  return part.size();
}

void request_reader::end_line(std::string_view line) {
  if (state_ == state::chunk_size) {
    parse_chunk_size(line);
  } else if (state_ == state::chunk_end) {
    if (line.empty()) {
      state_ = state::chunk_size;
    } else {
      fail("a chunk is longer than its size");
    }
  } else if (line.empty()) {
    request_.body.reserve(request_.body.size() + k_body_padding_bytes);
    state_ = state::complete;
  }
}

bool request_reader::parse_chunk_size(std::string_view line) {
  const auto digits = line.substr(0, line.find(';'));
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), left_, 16);
  if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size())
    return fail("a chunk's size is no number");
  if (left_ > k_body_bytes_max - request_.body.size()) return fail("the body is too long", 413);
  state_ = left_ == 0 ? state::trailer : state::chunk_data;
  return true;
}

bool request_reader::take_expectation() noexcept {
  const bool waits = expects_continue_ && (state_ == state::body || state_ == state::chunk_size);
  if (waits) expects_continue_ = false;
  return waits;
}

void request_reader::reset() {
  state_ = state::head;
  expects_continue_ = false;
  left_ = 0;
  line_.clear();
  request_.authorization.clear();
  request_.fault.clear();
  request_.body.clear();
  if (line_.capacity() > k_kept_bytes_max) line_.shrink_to_fit();
  if (request_.body.capacity() > k_kept_bytes_max) request_.body.shrink_to_fit();
}

}  // namespace weir::loadtest::mock
