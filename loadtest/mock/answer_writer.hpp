// The bytes of one completion answer as vLLM writes them, each event in a chunk of its own. No I/O; every
// function appends to `out`. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "loadtest/mock/completion_ask.hpp"
#include "loadtest/mock/options.hpp"

namespace weir::loadtest::mock {

inline constexpr std::int64_t k_echo_token_bytes_min = 4;  // a token holds whole characters

void append_json_escaped(std::string& out, std::string_view text);
void append_chunk(std::string& out, std::string_view payload);

// A whole answer with content-length. `extra_fields`: further head lines, each with its CRLF.
void append_response(std::string& out, int status, std::string_view type, std::string_view body,
                     std::string_view extra_fields = {});

// An error body as vLLM writes it: its code is the status as a number.
std::string error_body(int status, std::string_view type, std::string_view message,
                       std::string_view param = {});

class answer_writer final {
 public:
  // `number`: unlike any other answer's; the id is made of it.
  answer_writer(completion_ask ask, const mock_options& options, std::uint64_t number,
                std::int64_t created_s);

  std::int64_t token_count() const noexcept { return token_count_; }
  bool cut_by_length() const noexcept { return cut_by_length_; }
  std::int64_t cached_tokens() const noexcept { return cached_tokens_; }
  void set_cached_tokens(std::int64_t count) noexcept { cached_tokens_ = count; }
  const completion_ask& ask() const noexcept { return ask_; }

  // The stream, in this order; role() writes nothing for /v1/completions, usage() only where it was asked
  // for.
  void head(std::string_view extra_fields, std::string& out) const;
  void role(std::string& out) const;
  void token(std::int64_t index, std::string& out) const;
  void finish(std::string& out) const;
  void usage(std::string& out) const;
  void done(std::string& out) const;
  void end(std::string& out) const;

  // Deviations of a stream.
  void error_event(std::string& out) const;
  void garbage_event(std::string& out) const;
  void half_event(std::string& out) const;

  // The body of an answer that is no stream.
  std::string whole() const;

 private:
  void append_token_text(std::int64_t index, std::string& out) const;
  std::size_t echo_offset(std::int64_t index) const;
  void event(std::string_view text, std::string& out) const;
  std::string usage_json() const;
  std::string_view finish_reason() const { return cut_by_length_ ? "length" : "stop"; }

  completion_ask ask_;
  std::int64_t token_count_ = 0;
  std::int64_t cached_tokens_ = 0;
  std::int64_t token_bytes_;
  std::int64_t reply_bytes_;
  bool echo_;
  bool cut_by_length_ = false;
  std::string intro_;        // {"id": ... up to the choices, of every event
  std::string event_start_;  // up to a token's text
  std::string_view event_end_;
};

}  // namespace weir::loadtest::mock
