#include "engine/text/safe_cut.hpp"

#include "engine/text/utf8.hpp"

namespace weir::engine::text {
namespace {

bool may_end_left(const unicode_classes& classes, std::string_view left) {
  std::size_t first = left.size() - 1;
  while (first > 0 && left.size() - first < 4 && (left[first] & 0xC0) == 0x80) --first;
  const utf8_step step = next_char(left.substr(first));
  return step.status == utf8_status::valid && first + step.size == left.size() &&
         (classes.flags(step.code_point) & (k_letter | k_number)) != 0;
}

bool may_begin_right(const unicode_classes& classes, std::string_view right) {
  const utf8_step step = next_char(right);
  if (step.status != utf8_status::valid || step.code_point == '\'') return false;
  if (step.code_point >= 0x3040 && step.code_point <= 0x30FF) return false;
  return (classes.flags(step.code_point) & (k_letter | k_number | k_upper | k_lower | k_han)) == 0;
}

}  // namespace

std::size_t find_safe_cut(const unicode_classes& classes, std::string_view text, std::size_t from) {
  for (std::size_t at = from == 0 ? 1 : from; at < text.size(); ++at) {
    if ((text[at] & 0xC0) == 0x80) continue;
    if (may_begin_right(classes, text.substr(at, 4)) && may_end_left(classes, text.substr(0, at))) return at;
  }
  return text.size();
}

}  // namespace weir::engine::text
