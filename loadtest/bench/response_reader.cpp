#include "loadtest/bench/response_reader.hpp"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <optional>

namespace weir::loadtest::bench {

namespace {

constexpr std::size_t k_tail_bytes = std::string_view("data: [DONE]\n\n").size();

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

// The value of a field line when it has this (lower-case) name.
std::optional<std::string_view> value_of(std::string_view line, std::string_view name) {
  if (line.size() <= name.size() || line[name.size()] != ':') return std::nullopt;
  if (!std::ranges::equal(line.substr(0, name.size()), name, {}, lower)) return std::nullopt;
  line.remove_prefix(name.size() + 1);
  while (line.starts_with(' ')) line.remove_prefix(1);
  return line;
}

bool parse_number(std::string_view text, int base, std::size_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, base);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

void response_reader::reset() {
  state_ = state::head;
  closes_ = false;
  after_newline_ = false;
  status_ = 0;
  events_ = 0;
  left_ = 0;
  line_.clear();
  tail_.clear();
}

std::size_t response_reader::take(std::string_view bytes) {
  assert(state_ != state::complete && state_ != state::broken);
  std::size_t used = 0;
  while (used < bytes.size() && state_ != state::complete && state_ != state::broken) {
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

std::size_t response_reader::take_head(std::string_view bytes) {
  constexpr std::string_view k_end = "\r\n\r\n";
  const auto before = line_.size();
  line_ += bytes.substr(0, k_response_head_bytes_max + 1 - before);
  const auto end = line_.find(k_end, before < 3 ? 0 : before - 3);
  if (end == std::string::npos) {
    if (line_.size() > k_response_head_bytes_max) state_ = state::broken;
    return line_.size() - before;
  }
  parse_head(std::string_view(line_).substr(0, end + 2));
  line_.clear();
  return end + k_end.size() - before;
}

void response_reader::parse_head(std::string_view head) {
  constexpr std::string_view k_version = "HTTP/1.1 ";
  constexpr std::size_t k_status_digits = 3;
  std::size_t status = 0;
  bool known =
      head.starts_with(k_version) && parse_number(head.substr(k_version.size(), k_status_digits), 10, status);
  status_ = static_cast<int>(status);
  bool chunked = false;
  bool sized = false;
  while (known && !head.empty()) {
    const auto end = head.find("\r\n");
    const auto line = head.substr(0, end);
    head.remove_prefix(end + 2);
    if (const auto length = value_of(line, "content-length")) {
      sized = known = parse_number(*length, 10, left_);
    } else if (const auto coding = value_of(line, "transfer-encoding")) {
      chunked = true;
    } else if (const auto connection = value_of(line, "connection")) {
      closes_ = *connection == "close";
    }
  }
  if (!known || sized == chunked) {
    state_ = state::broken;
  } else if (chunked) {
    state_ = state::chunk_size;
  } else {
    state_ = left_ > 0 ? state::body : state::complete;
  }
}

// Counts blank lines and keeps the last bytes.
void response_reader::watch(std::string_view body) {
  for (auto rest = body; !rest.empty();) {
    const auto newline = rest.find('\n');
    if (newline == 0 && after_newline_) {
      ++events_;
      after_newline_ = false;
    } else {
      after_newline_ = newline != std::string_view::npos;
    }
    if (newline == std::string_view::npos) break;
    rest.remove_prefix(newline + 1);
  }
  if (body.size() >= k_tail_bytes) {
    tail_.assign(body.substr(body.size() - k_tail_bytes));
  } else {
    tail_ += body;
    if (tail_.size() > k_tail_bytes) tail_.erase(0, tail_.size() - k_tail_bytes);
  }
}

std::size_t response_reader::take_body(std::string_view bytes) {
  const auto part = bytes.substr(0, left_);
  watch(part);
  left_ -= part.size();
  if (left_ == 0) state_ = state_ == state::body ? state::complete : state::chunk_end;
  return part.size();
}

std::size_t response_reader::take_line(std::string_view bytes) {
  const auto end = bytes.find("\n");
  const auto part = bytes.substr(0, end == std::string_view::npos ? end : end + 1);
  line_ += part;
  if (line_.size() > k_response_head_bytes_max) state_ = state::broken;
  if (end == std::string_view::npos || state_ == state::broken) return part.size();
  if (line_.ends_with("\r\n")) {
    end_line(std::string_view(line_).substr(0, line_.size() - 2));
    line_.clear();
  } else {
    state_ = state::broken;
  }
  return part.size();
}

void response_reader::end_line(std::string_view line) {
  if (state_ == state::chunk_size) {
    const bool number = parse_number(line, 16, left_);
    state_ = !number ? state::broken : left_ == 0 ? state::trailer : state::chunk_data;
  } else if (state_ == state::chunk_end) {
    state_ = line.empty() ? state::chunk_size : state::broken;
  } else if (line.empty()) {
    state_ = state::complete;
  }
}

}  // namespace weir::loadtest::bench
