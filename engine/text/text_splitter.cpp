#include "engine/text/text_splitter.hpp"

#include <utility>

#include "engine/text/utf8.hpp"

namespace weir::engine::text {
namespace {

bool is_ascii_python_space(char c) {
  return (c >= '\t' && c <= '\r') || (c >= '\x1C' && c <= ' ');
}

bool is_python_space(const unicode_classes& classes, const utf8_step& step) {
  if (step.status != utf8_status::valid) return false;
  return (step.code_point >= 0x1C && step.code_point <= 0x1F) ||
         (classes.flags(step.code_point) & k_space) != 0;
}

void count_char(text_state& state, bool space) {
  state.run_chars = space == state.run_is_space ? state.run_chars + 1 : 1;
  state.run_is_space = space;
  ++state.chunk_chars;
}

// Of a text's slice that is ASCII only its length and its last run matter.
void count_ascii(text_state& state, std::string_view text) {
  const bool space = is_ascii_python_space(text.back());
  std::size_t run = 1;
  while (run < text.size() && is_ascii_python_space(text[text.size() - 1 - run]) == space) ++run;
  const bool joins = run == text.size() && state.run_is_space == space;
  state.run_chars = static_cast<std::uint32_t>(joins ? state.run_chars + run : run);
  state.run_is_space = space;
  state.chunk_chars += static_cast<std::uint32_t>(text.size());
}

}  // namespace

void text_splitter::pass_whole_rest() {
  for (std::size_t at = 0; at < rest_.size();) {
    if (const std::size_t ascii = ascii_bytes(rest_.substr(at)); ascii > 0) {
      count_ascii(state_, rest_.substr(at, ascii));
      at += ascii;
      continue;
    }
    const utf8_step step = next_char(rest_.substr(at, 4));
    count_char(state_, is_python_space(*classes_, step));
    at += step.status == utf8_status::valid ? step.size : 1;
  }
}

std::string_view text_splitter::next() {
  if (rest_.empty()) return {};
  // Fewer bytes than a run or the chunk may still have characters: no cut is possible.
  if (state_.run_chars + rest_.size() <= k_run_chars_max &&
      state_.chunk_chars + rest_.size() <= k_chunk_chars_max) {
    pass_whole_rest();
    return std::exchange(rest_, {});
  }
  std::size_t at = 0;
  while (at < rest_.size()) {
    utf8_step step = next_char(rest_.substr(at, 4));
    if (step.status != utf8_status::valid) step.size = 1;
    const bool space = is_python_space(*classes_, step);
    const bool chunk_full = state_.chunk_chars == k_chunk_chars_max;
    const bool run_full = space == state_.run_is_space && state_.run_chars == k_run_chars_max;
    if (chunk_full || run_full) {
      state_ = {chunk_full ? 0 : state_.chunk_chars, 0, false};
      if (at > 0) break;
    }
    count_char(state_, space);
    at += step.size;
  }
  const std::string_view part = rest_.substr(0, at);
  rest_.remove_prefix(at);
  return part;
}

}  // namespace weir::engine::text
