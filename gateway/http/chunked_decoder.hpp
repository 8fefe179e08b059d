// A strict decoder of chunked request bodies. Extensions are checked and ignored, trailers are checked and
// dropped: nothing that follows the head can change what the head said.
//
// Sans-IO: the caller shows bytes in any segmentation and takes views of the data in them; the verdict
// depends on the bytes alone. Nothing is skipped to find a next chunk: the first fault is final. White space
// around chunk sizes and extensions is refused, although RFC 9112 section 7.1.1 lets a recipient drop it: no
// client needs it and parsers disagree on it.
// Threads: one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

#include "gateway/http/syntax.hpp"

namespace weir::gateway::http {

struct chunk_step {
  enum class kind : std::uint8_t {
    need_more,  // all input was taken and is correct so far
    data,       // `data` is body; call again with the rest of the input
    done,       // the body and its trailers are complete; the rest belongs to the next request
    reject,     // see rejected(); 400, 413 over the limit, 431 for long trailers
  };
  kind what;
  std::size_t consumed;   // bytes of the input that were taken
  std::string_view data;  // within the input
};

class chunked_decoder final {
 public:
  explicit chunked_decoder(std::uint64_t body_bytes_max) noexcept : room_bytes_(body_bytes_max) {}

  // Takes input up to the next piece of data, the end or a fault.
  chunk_step decode(std::string_view input);

  const rejection& rejected() const noexcept { return rejected_; }  // REQUIRES: reject

 private:
  enum class state : std::uint8_t {
    size_start,        // first digit of a chunk size
    size,              // further digits, ';' or CR
    extension_name,    // after ';'
    extension_value,   // after '='
    extension_token,   // within an unquoted value
    extension_quote,   // within a quoted value
    extension_escape,  // after a backslash in a quoted value
    extension_end,     // after the closing quote
    size_lf,           // LF after the size line
    data,              // within chunk data
    data_cr,           // CR after chunk data
    data_lf,           // LF after chunk data
    trailer,           // within a trailer line
    trailer_lf,        // LF after a trailer line
    done,              // final
    failed,            // final
  };
  using step = std::expected<void, rejection>;

  step take(char c);
  step take_size(char c);
  step take_extension(char c);
  step take_size_line_end(char c);
  step take_trailer(char c);
  step take_trailer_line();

  state state_ = state::size_start;
  std::uint64_t room_bytes_;
  std::uint64_t chunk_bytes_ = 0;  // of the current chunk: announced, then left
  std::size_t digit_count_ = 0;
  std::size_t name_bytes_ = 0;
  std::size_t extension_bytes_ = 0;
  std::size_t extensions_bytes_ = 0;
  std::size_t trailer_bytes_ = 0;
  std::string trailer_line_;
  rejection rejected_;
};

}  // namespace weir::gateway::http
