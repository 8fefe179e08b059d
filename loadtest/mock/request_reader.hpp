// HTTP/1.1 requests out of a byte stream, wherever it is cut, stricter than most servers: what a sloppy
// sender gets away with elsewhere is malformed here. No I/O. One connection, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weir::loadtest::mock {

inline constexpr std::size_t k_head_bytes_max = 64 << 10;
inline constexpr std::size_t k_body_bytes_max = 256 << 20;
inline constexpr std::size_t k_chunk_line_bytes_max = 1 << 10;
inline constexpr std::size_t k_body_padding_bytes = 64;  // capacity behind the body, for the JSON parser

struct request {
  std::string method;
  std::string target;
  std::string authorization;
  std::string fault;  // x-mock-fault
  std::string body;   // its capacity is at least its size and k_body_padding_bytes
  bool keep_alive = true;
};

class request_reader final {
 public:
  // Takes bytes up to the end of a request and says how many it took; the rest belongs to the next request.
  // REQUIRES: neither complete() nor malformed().
  std::size_t take(std::string_view bytes);

  bool complete() const noexcept { return state_ == state::complete; }
  bool malformed() const noexcept { return state_ == state::malformed; }
  bool started() const noexcept { return state_ != state::head || !line_.empty(); }
  const request& current() const noexcept { return request_; }

  // Why the request is malformed, and the status that says so: 400, 413 or 431.
  const char* reason() const noexcept { return reason_; }
  int status() const noexcept { return status_; }

  // True once for a request whose sender waits for "100 Continue" before its body.
  bool take_expectation() noexcept;

  // Ready for the next request; gives large buffers back.
  void reset();

 private:
  enum class state : std::uint8_t {
    head,        // to body, chunk_size, complete
    body,        // to complete
    chunk_size,  // to chunk_data, trailer
    chunk_data,  // to chunk_end
    chunk_end,   // to chunk_size
    trailer,     // to complete
    complete,    // to head, by reset()
    malformed,   // never left; every state but complete leads here
  };
  struct framing {
    bool has_length = false;
    bool chunked = false;
    std::size_t hosts = 0;
  };

  std::size_t take_head(std::string_view bytes);
  std::size_t take_body(std::string_view bytes);
  std::size_t take_line(std::string_view bytes);  // a chunk's size, its end, a trailer
  bool parse_head(std::string_view head);
  bool parse_request_line(std::string_view line);
  bool parse_field(std::string_view line, framing& seen);
  bool parse_length(std::string_view value, framing& seen);
  bool parse_chunk_size(std::string_view line);
  void end_line(std::string_view line);
  bool fail(const char* reason, int status = 400);

  state state_ = state::head;
  bool expects_continue_ = false;
  bool http_1_0_ = false;
  int status_ = 400;
  const char* reason_ = "";
  std::size_t left_ = 0;  // of the body or of the chunk
  std::string line_;      // an incomplete head or line
  request request_;
};

}  // namespace weir::loadtest::mock
