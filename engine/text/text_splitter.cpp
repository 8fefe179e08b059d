#include "engine/text/text_splitter.hpp"

#include <utility>

#include "engine/text/utf8.hpp"

namespace weir::engine::text {
namespace {

bool is_python_space(const unicode_classes& classes, const utf8_step& step) {
  if (step.status != utf8_status::valid) return false;
  return (step.code_point >= 0x1C && step.code_point <= 0x1F) ||
         (classes.flags(step.code_point) & k_space) != 0;
}

}  // namespace

std::string_view text_splitter::next() {
  // Fewer bytes than a run may have characters: no cut is possible.
  if (chunk_chars_ == 0 && rest_.size() <= k_run_chars_max) return std::exchange(rest_, {});
  std::size_t at = 0;
  std::size_t part_chars = 0;
  std::size_t run_chars = 0;
  bool run_is_space = false;
  while (at < rest_.size()) {
    utf8_step step = next_char(rest_.substr(at, 4));
    if (step.status != utf8_status::valid) step.size = 1;
    const bool space = is_python_space(*classes_, step);
    run_chars = space == run_is_space ? run_chars + 1 : 1;
    run_is_space = space;
    if (chunk_chars_ + part_chars == k_chunk_chars_max) {
      chunk_chars_ = 0;
      break;
    }
    if (run_chars > k_run_chars_max) {
      chunk_chars_ += part_chars;
      break;
    }
    ++part_chars;
    at += step.size;
  }
  const std::string_view part = rest_.substr(0, at);
  rest_.remove_prefix(at);
  return part;
}

}  // namespace weir::engine::text
