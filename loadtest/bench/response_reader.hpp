// HTTP/1.1 answers out of a byte stream, only as far as a benchmark's client needs: where an answer ends, its
// status, how many events it held and whether it ended with [DONE]. No I/O. One connection, one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weir::loadtest::bench {

inline constexpr std::size_t k_response_head_bytes_max = 64 << 10;

class response_reader final {
 public:
  // Takes bytes up to the end of an answer and says how many it took. REQUIRES: neither complete() nor
  // broken().
  std::size_t take(std::string_view bytes);

  bool complete() const noexcept { return state_ == state::complete; }
  bool broken() const noexcept { return state_ == state::broken; }
  bool started() const noexcept { return state_ != state::head || !line_.empty(); }
  int status() const noexcept { return status_; }
  bool closes() const noexcept { return closes_; }          // "connection: close"
  std::int64_t events() const noexcept { return events_; }  // blank lines in the body
  bool ends_with_done() const { return tail_ == "data: [DONE]\n\n"; }
  void reset();

 private:
  enum class state : std::uint8_t {
    head,
    body,
    chunk_size,
    chunk_data,
    chunk_end,
    trailer,
    complete,
    broken
  };

  std::size_t take_head(std::string_view bytes);
  std::size_t take_body(std::string_view bytes);
  std::size_t take_line(std::string_view bytes);
  void parse_head(std::string_view head);
  void end_line(std::string_view line);
  void watch(std::string_view body);

  state state_ = state::head;
  bool closes_ = false;
  bool after_newline_ = false;
  int status_ = 0;
  std::int64_t events_ = 0;
  std::size_t left_ = 0;
  std::string line_;
  std::string tail_;  // the body's last bytes
};

}  // namespace weir::loadtest::bench
