// The strict check of an upstream's HTTP/1.x response head: the mirror of head_parser. What it refuses
// becomes a 502, and a connection that spoke so is never used again.
//
// Sans-IO and incremental: the caller keeps the head's bytes in one contiguous buffer, appends to it, and
// shows it again; no byte is looked at twice. The verdict depends on the bytes alone, never on how they were
// split. Holds offsets, no pointers, so the buffer may move between calls. Threads: one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "gateway/http/head_parser.hpp"

namespace weir::gateway::http {

// How the body of a reply to a GET or POST ends.
enum class reply_framing : std::uint8_t {
  none,            // 1xx, 204 and 304
  content_length,  // after exactly that many bytes
  chunked,
  to_close,  // with the connection
};

class reply_parser final {
 public:
  // `buffer` begins at the head's first byte and holds at least the bytes shown before.
  parse_state parse(std::string_view buffer);
  void reset() noexcept;  // forgets the head; keeps memory

  std::string_view reason() const noexcept { return reason_; }  // REQUIRES: reject; a literal

  // REQUIRES for all below: ok; `buffer` is the one last parsed. Views point into it.
  std::size_t head_bytes() const noexcept { return line_begin_; }
  int status() const noexcept { return status_; }
  std::size_t field_count() const noexcept { return fields_.size(); }
  field_view field(std::size_t index, std::string_view buffer) const noexcept;
  reply_framing framing() const noexcept { return framing_; }
  std::uint64_t content_length() const noexcept { return content_length_.value_or(0); }
  bool keep_alive() const noexcept { return keep_alive_; }  // the connection may serve a next request

 private:
  struct field_span {
    std::uint32_t name_begin;
    std::uint32_t name_bytes;
    std::uint32_t value_begin;
    std::uint32_t value_bytes;
  };

  // Each returns why the head is refused, or nothing.
  using verdict = std::optional<std::string_view>;
  verdict take_line(std::string_view buffer, std::string_view line);
  verdict take_status_line(std::string_view line);
  verdict take_field(std::string_view buffer, std::string_view line);
  verdict finish();

  std::size_t line_begin_ = 0;
  std::size_t scanned_ = 0;
  bool status_seen_ = false;
  bool complete_ = false;
  std::string_view reason_;

  int status_ = 0;
  bool http_1_0_ = false;
  std::vector<field_span> fields_;
  std::optional<std::uint64_t> content_length_;
  std::optional<coding> coding_;
  connection_options connection_;
  reply_framing framing_ = reply_framing::none;
  bool keep_alive_ = false;
};

}  // namespace weir::gateway::http
