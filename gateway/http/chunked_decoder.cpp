#include "gateway/http/chunked_decoder.hpp"

#include <algorithm>

#include "gateway/http/limits.hpp"

namespace weir::gateway::http {
namespace {

std::unexpected<rejection> refuse(int status, std::string_view reason) {
  return std::unexpected(rejection{status, reason});
}

}  // namespace

chunk_step chunked_decoder::decode(std::string_view input) {
  using kind = chunk_step::kind;
  std::size_t at = 0;
  while (state_ != state::done && state_ != state::failed) {
    if (at == input.size()) return {kind::need_more, at, {}};
    if (state_ == state::data) {
      const auto length = static_cast<std::size_t>(std::min<std::uint64_t>(chunk_bytes_, input.size() - at));
      chunk_bytes_ -= length;
      if (chunk_bytes_ == 0) state_ = state::data_cr;
      return {kind::data, at + length, input.substr(at, length)};
    }
    if (step taken = take(input[at]); !taken) {
      rejected_ = taken.error();
      state_ = state::failed;
      return {kind::reject, at, {}};
    }
    ++at;
  }
  return {state_ == state::done ? kind::done : kind::reject, at, {}};
}

chunked_decoder::step chunked_decoder::take(char c) {
  switch (state_) {
    case state::size_start:
    case state::size:
      return take_size(c);
    case state::extension_name:
    case state::extension_value:
    case state::extension_token:
    case state::extension_quote:
    case state::extension_escape:
    case state::extension_end:
      return take_extension(c);
    case state::size_lf:
      return take_size_line_end(c);
    case state::data_cr:
      if (c != '\r') return refuse(400, "chunk data not followed by CRLF");
      state_ = state::data_lf;
      return {};
    case state::data_lf:
      if (c != '\n') return refuse(400, "chunk data not followed by CRLF");
      state_ = state::size_start;
      return {};
    default:
      return take_trailer(c);
  }
}

chunked_decoder::step chunked_decoder::take_size(char c) {
  if (const int digit = hex_digit(c); digit >= 0) {
    if (state_ == state::size_start) {
      chunk_bytes_ = 0;
      digit_count_ = 0;
      extension_bytes_ = 0;
      state_ = state::size;
    }
    if (++digit_count_ > k_chunk_size_digits_max) return refuse(400, "a chunk size of more than 16 digits");
    chunk_bytes_ = chunk_bytes_ * 16 + static_cast<std::uint64_t>(digit);
    return {};
  }
  if (state_ == state::size_start) return refuse(400, "a chunk size that does not start with a digit");
  if (c == ';') {
    state_ = state::extension_name;
    name_bytes_ = 0;
    extension_bytes_ = 1;
  } else if (c == '\r') {
    state_ = state::size_lf;
  } else {
    return refuse(400, "a chunk size followed by something other than CRLF or an extension");
  }
  return {};
}

// extension = ";" token [ "=" ( token / quoted-string ) ]
chunked_decoder::step chunked_decoder::take_extension(char c) {
  if (c != '\r' && ++extension_bytes_ > k_chunk_extension_bytes_max) {
    return refuse(400, "a chunk extension of more than 256 bytes");
  }
  const auto malformed = [] { return refuse(400, "a malformed chunk extension"); };
  switch (state_) {
    case state::extension_quote:
      if (c == '"') state_ = state::extension_end;
      if (c == '\\') state_ = state::extension_escape;
      if (is_control(c)) return refuse(400, "a control character in a chunk extension");
      return {};
    case state::extension_escape:
      if (is_control(c)) return refuse(400, "a control character in a chunk extension");
      state_ = state::extension_quote;
      return {};
    case state::extension_value:
      if (c == '"') {
        state_ = state::extension_quote;
        return {};
      }
      if (!is_token_char(c)) return malformed();
      state_ = state::extension_token;
      return {};
    case state::extension_name:
      if (is_token_char(c)) {
        ++name_bytes_;
        return {};
      }
      if (name_bytes_ == 0) return malformed();
      if (c == '=') {
        state_ = state::extension_value;
        return {};
      }
      break;
    case state::extension_token:
      if (is_token_char(c)) return {};
      break;
    default:
      break;
  }
  if (c == ';') {
    state_ = state::extension_name;
    name_bytes_ = 0;
    return {};
  }
  if (c != '\r') return malformed();
  state_ = state::size_lf;
  return {};
}

chunked_decoder::step chunked_decoder::take_size_line_end(char c) {
  if (c != '\n') return refuse(400, "a bare CR in a chunk size line");
  extensions_bytes_ += extension_bytes_;
  if (extensions_bytes_ > k_chunk_extensions_bytes_max)
    return refuse(400, "chunk extensions of more than 16 KiB");
  if (chunk_bytes_ > room_bytes_) return refuse(413, "a body over the limit of this path");
  room_bytes_ -= chunk_bytes_;
  state_ = chunk_bytes_ == 0 ? state::trailer : state::data;
  return {};
}

chunked_decoder::step chunked_decoder::take_trailer(char c) {
  if (++trailer_bytes_ > k_trailer_bytes_max) return refuse(431, "trailers of more than 8 KiB");
  if (state_ == state::trailer_lf) {
    if (c != '\n') return refuse(400, "a bare CR after the last chunk");
    return take_trailer_line();
  }
  if (c == '\r') {
    state_ = state::trailer_lf;
  } else if (c == '\n') {
    return refuse(400, "a bare LF after the last chunk");
  } else if (is_control(c)) {
    return refuse(400, "a control character in a trailer");
  } else {
    trailer_line_.push_back(c);
  }
  return {};
}

chunked_decoder::step chunked_decoder::take_trailer_line() {
  if (trailer_line_.empty()) {
    state_ = state::done;
    return {};
  }
  const auto field = parse_field_line(trailer_line_);
  if (!field) return std::unexpected(field.error());
  if (is_forbidden_trailer(field->name)) {
    return refuse(400, "a trailer with a framing, routing, credential or content field");
  }
  trailer_line_.clear();
  state_ = state::trailer;
  return {};
}

}  // namespace weir::gateway::http
