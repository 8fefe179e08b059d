// What a target answered, gathered while it passes: its text, its tool calls, and when its content came. Of
// an answer with several choices it is the first. Reasoning counts as content in time, not in text.
//
// Bounded: of text and calls together `bytes_max`, of pauses k_pauses_max; what is beyond is not kept, and
// cut says so of text, which ends between two characters. Threads: one owner; each thread has a parser.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weir::gateway::shadow {

inline constexpr std::size_t k_pauses_max = 4096;
inline constexpr std::size_t k_calls_max = 128;

// Its first bytes, at most so many, to the end of a character. REQUIRES: valid UTF-8.
std::string_view first_bytes(std::string_view text, std::size_t bytes_max) noexcept;

struct tool_call {
  std::string name;
  std::string arguments;  // JSON, as the target wrote it

  friend bool operator==(const tool_call&, const tool_call&) = default;
};

struct answer {
  std::string text;
  std::vector<tool_call> calls;
  bool cut = false;  // there was more
};

class answer_gatherer final {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  explicit answer_gatherer(std::size_t bytes_max) : bytes_left_(bytes_max) {}

  // One or more whole events of the chat or completions API that came at `at`.
  void push(std::string_view events, time_point at);
  // A whole reply.
  void push_whole(std::string_view body);

  const answer& found() const noexcept { return found_; }
  answer take() { return std::move(found_); }
  std::int64_t events() const noexcept { return events_; }  // with content
  // From the first content to the last; 0 where there were no two.
  std::chrono::nanoseconds content_time() const noexcept { return last_ - first_; }
  // -1: there was no pause.
  std::int64_t median_pause_ns() const;

 private:
  void push_event(std::string_view event, time_point at);
  void add(std::string& to, std::string_view more);
  tool_call* call_at(std::size_t index);
  template <class Object>
  bool read_content(const Object& of);
  template <class Array>
  void read_calls(const Array& calls);

  std::size_t bytes_left_;
  answer found_;
  std::int64_t events_ = 0;
  time_point first_{}, last_{};
  std::vector<std::uint32_t> pauses_us_;
};

}  // namespace weir::gateway::shadow
