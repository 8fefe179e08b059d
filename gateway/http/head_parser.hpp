// The strict check of a raw HTTP/1.x request head. It stands in front of everything: what it refuses reaches
// no handler, and what it accepts has one meaning only, whoever reads it after us.
//
// Sans-IO and incremental: the caller keeps the head's bytes in one contiguous buffer, appends to it, and
// shows it again; no byte is looked at twice (apart from its finished line), so byte-wise delivery costs
// linear time. The verdict depends on the bytes alone, never on how they were split. Invariants: never reads
// past the first byte at fault; holds offsets, no pointers, so the buffer may move between calls. Threads:
// one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string_view>
#include <vector>

#include "gateway/http/syntax.hpp"

namespace weir::gateway::http {

enum class request_method : std::uint8_t { get, head, post, put, patch, delete_, options };

enum class body_framing : std::uint8_t {
  none,            // no body
  content_length,  // exactly content_length bytes
  chunked,         // a chunked body
};

enum class parse_state : std::uint8_t {
  need_more,  // a correct beginning; show it again with more bytes
  ok,         // a complete, valid head of head_bytes() bytes
  reject,     // refused for rejected(); the connection must close
};

class head_parser final {
 public:
  // `buffer` begins at the head's first byte and holds at least the bytes shown before.
  parse_state parse(std::string_view buffer);

  // Forgets the head; keeps memory.
  void reset() noexcept;

  const rejection& rejected() const noexcept { return rejected_; }              // REQUIRES: reject
  bool started() const noexcept { return request_line_seen_ || scanned_ > 0; }  // any byte seen

  // REQUIRES for all below: ok; `buffer` is the one last parsed. Views point into it.
  std::size_t head_bytes() const noexcept { return scanned_; }
  request_method method() const noexcept { return method_; }
  std::string_view path(std::string_view buffer) const noexcept { return path_.in(buffer); }
  std::string_view query(std::string_view buffer) const noexcept { return query_.in(buffer); }
  std::size_t field_count() const noexcept { return fields_.size(); }
  field_view field(std::size_t index, std::string_view buffer) const noexcept;
  bool http_1_0() const noexcept { return minor_ == 0; }
  body_framing framing() const noexcept { return framing_; }
  std::uint64_t content_length() const noexcept { return content_length_.value_or(0); }
  bool keep_alive() const noexcept { return keep_alive_; }
  bool expect_continue() const noexcept { return expect_continue_; }

 private:
  struct span {
    std::uint32_t begin = 0;
    std::uint32_t length = 0;
    std::string_view in(std::string_view buffer) const noexcept { return buffer.substr(begin, length); }
  };
  struct field_span {
    span name;
    span value;
  };
  using step = std::expected<void, rejection>;

  step take_byte(std::string_view buffer);
  step take_line(std::string_view buffer, std::string_view line);
  step take_request_line(std::string_view buffer, std::string_view line);
  step take_version(std::string_view version);
  step take_method(std::string_view method);
  step take_target(std::string_view buffer, std::string_view target);
  step take_field(std::string_view buffer, std::string_view line);
  step take_content_length(std::string_view value);
  step take_transfer_encoding(std::string_view value);
  step take_connection(std::string_view value);
  step finish();
  step finish_framing();
  static span span_of(std::string_view buffer, std::string_view part) noexcept;

  std::size_t scanned_ = 0;
  std::size_t line_begin_ = 0;
  std::size_t empty_lines_ = 0;
  bool request_line_seen_ = false;
  bool complete_ = false;
  bool refused_ = false;
  rejection rejected_;

  request_method method_ = request_method::get;
  std::uint8_t minor_ = 1;
  span path_;
  span query_;
  std::vector<field_span> fields_;
  std::size_t host_count_ = 0;
  std::optional<std::uint64_t> content_length_;
  std::optional<coding> coding_;
  bool expect_seen_ = false;
  bool expect_unknown_ = false;
  connection_options connection_;
  body_framing framing_ = body_framing::none;
  bool keep_alive_ = true;
  bool expect_continue_ = false;
};

}  // namespace weir::gateway::http
