#include "engine/structure/string_rules.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace weir::engine::structure {

namespace {

constexpr std::uint32_t k_indent_max = 32;
constexpr std::string_view k_short_bytes = "\b\f\n\r\t\"\\";
constexpr std::string_view k_short_letters = "bfnrt\"\\";

}  // namespace

void string_rules::space(state_id from, state_id to) {
  if (!space_) {
    const rule_id blank = out_.add_rule();
    out_.read(out_.start(blank), ' ', out_.end(blank));
    out_.read(out_.start(blank), '\t', out_.end(blank));
    space_ = out_.add_rule();
    const state_id line = out_.add_state();
    out_.read(out_.start(*space_), ' ', out_.end(*space_));
    out_.read(out_.start(*space_), '\n', line);
    out_.call(line, blank, out_.end(*space_), 0, k_indent_max);
  }
  out_.call(from, *space_, to, 0, 1);
}

// A state that reads one continuation byte and goes to `to`.
state_id string_rules::continuation(state_id to) {
  const auto known = continuations_.find(to);
  if (known != continuations_.end()) return known->second;
  const state_id s = out_.add_state();
  out_.read(s, 0x80, 0xBF, to);
  continuations_.emplace(to, s);
  return s;
}

// Every character above ASCII as UTF-8: no overlong forms, no surrogates.
void string_rules::non_ascii(state_id from, state_id to) {
  const state_id one = continuation(to);
  const state_id two = continuation(one);
  const auto second = [&](symbol lead, symbol low, symbol high, state_id next) {
    const state_id s = out_.add_state();
    out_.read(from, lead, s);
    out_.read(s, low, high, next);
  };
  out_.read(from, 0xC2, 0xDF, one);
  second(0xE0, 0xA0, 0xBF, one);
  out_.read(from, 0xE1, 0xEC, two);
  second(0xED, 0x80, 0x9F, one);
  out_.read(from, 0xEE, 0xEF, two);
  second(0xF0, 0x90, 0xBF, two);
  out_.read(from, 0xF1, 0xF3, continuation(two));
  second(0xF4, 0x80, 0x8F, two);
}

// Behind `\u`: a character, or both halves of a pair.
void string_rules::unicode_escape(state_id from, state_id to) {
  const auto hex = [&](state_id at, std::string_view digits, state_id next) {
    for (const char c : digits) {
      out_.read(at, static_cast<unsigned char>(c), next);
      if (c >= 'a') out_.read(at, static_cast<unsigned char>(c - 'a' + 'A'), next);
    }
  };
  constexpr std::string_view k_all = "0123456789abcdef";
  const state_id last = out_.add_state(), third = out_.add_state(), second = out_.add_state();
  hex(last, k_all, to);
  hex(third, k_all, last);
  hex(second, k_all, third);
  hex(from, "0123456789abcef", second);
  const state_id surrogate = out_.add_state();  // behind `\ud`
  hex(from, "d", surrogate);
  hex(surrogate, "01234567", third);
  const state_id low_half = out_.add_state(), high_third = out_.add_state(), high_last = out_.add_state();
  hex(surrogate, "89ab", high_third);
  hex(high_third, k_all, high_last);
  const state_id behind = out_.add_state();
  hex(high_last, k_all, behind);
  out_.text(behind, "\\u", low_half);
  const state_id low_second = out_.add_state();
  hex(low_half, "d", low_second);
  hex(low_second, "cdef", third);
}

// Behind a backslash.
void string_rules::escapes(state_id from, state_id to) {
  for (const char c : std::string_view("bfnrt\"\\/")) out_.read(from, static_cast<unsigned char>(c), to);
  const state_id unicode = out_.add_state();
  out_.read(from, 'u', unicode);
  unicode_escape(unicode, to);
}

rule_id string_rules::any() {
  if (any_) return *any_;
  any_ = out_.add_rule();
  const state_id inner = out_.add_state();
  out_.read(out_.start(*any_), '"', inner);
  body(inner);
  out_.read(inner, '"', out_.end(*any_));
  return *any_;
}

// Whatever may stand between the quotes of a string.
void string_rules::body(state_id at) {
  const state_id escape = out_.add_state();
  out_.mark_plain_text(at);
  one_ascii(at, at);
  non_ascii(at, at);
  out_.read(at, '\\', escape);
  escapes(escape, at);
}

// A character of ASCII that needs no escape.
void string_rules::one_ascii(state_id from, state_id to) {
  out_.read(from, 0x20, 0x21, to);
  out_.read(from, 0x23, 0x5B, to);
  out_.read(from, 0x5D, 0x7F, to);
}

rule_id string_rules::character() {
  if (character_) return *character_;
  character_ = out_.add_rule();
  const state_id from = out_.start(*character_), to = out_.end(*character_), escape = out_.add_state();
  out_.mark_plain_char(*character_);
  one_ascii(from, to);
  non_ascii(from, to);
  out_.read(from, '\\', escape);
  escapes(escape, to);
  return *character_;
}

rule_id string_rules::counted(std::uint32_t min, std::uint32_t max) {
  if (min == 0 && max == k_no_limit) return any();
  const rule_id one = character();
  const rule_id out = out_.add_rule();
  const state_id open = out_.add_state(), close = out_.add_state();
  out_.read(out_.start(out), '"', open);
  if (max > 0) {
    out_.call(open, one, close, min, max);
  } else {
    out_.skip(open, close);
  }
  out_.read(close, '"', out_.end(out));
  return out;
}

// `bytes` bytes, the first with the bits of `mark`, whose other bits together are from low to high: split
// where all bits behind the first byte are free.
void string_rules::utf8_bits(state_id from, char32_t low, char32_t high, int bytes, symbol mark,
                             state_id to) {
  if (!out_.spend(1)) return;
  const auto marked = [mark](char32_t bits) { return static_cast<symbol>(mark + bits); };
  if (bytes == 1) return out_.read(from, marked(low), marked(high), to);
  const int shift = 6 * (bytes - 1);
  const char32_t all = (char32_t{1} << shift) - 1;
  const auto part = [&](char32_t first, char32_t last, char32_t tail_low, char32_t tail_high) {
    state_id next = to;
    if (tail_low == 0 && tail_high == all) {
      for (int i = 1; i < bytes; ++i) next = continuation(next);
    } else {
      const auto [known, fresh] = parts_.try_emplace({to, tail_low, tail_high, bytes - 1}, 0);
      if (fresh) {
        known->second = out_.add_state();
        utf8_bits(known->second, tail_low, tail_high, bytes - 1, 0x80, to);
      }
      next = known->second;
    }
    out_.read(from, marked(first), marked(last), next);
  };
  char32_t first = low >> shift;
  const char32_t last = high >> shift;
  if (first == last) return part(first, last, low & all, high & all);
  if ((low & all) != 0) {
    part(first, first, low & all, all);
    ++first;
  }
  const bool cut = (high & all) != all;
  if (cut) part(last, last, 0, high & all);
  if (first + (cut ? 1 : 0) <= last) part(first, cut ? last - 1 : last, 0, all);
}

void string_rules::utf8(state_id from, char32_t low, char32_t high, state_id to) {
  static constexpr struct {
    char32_t low, high;
    int bytes;
    symbol mark;
  } k_sizes[] = {{0, 0x7F, 1, 0},
                 {0x80, 0x7FF, 2, 0xC0},
                 {0x800, 0xD7FF, 3, 0xE0},
                 {0xE000, 0xFFFF, 3, 0xE0},
                 {0x10000, 0x10FFFF, 4, 0xF0}};
  for (const auto& s : k_sizes) {
    if (low > s.high || high < s.low) continue;
    utf8_bits(from, std::max(low, s.low), std::min(high, s.high), s.bytes, s.mark, to);
  }
}

// A state that reads the text and goes to `to`.
state_id string_rules::tail(std::string_view text, state_id to) {
  if (text.empty()) return to;
  const auto [known, fresh] = tails_.try_emplace({to, std::string(text)}, 0);
  if (fresh) {
    const state_id s = known->second = out_.add_state();
    out_.read(s, static_cast<unsigned char>(text[0]), tail(text.substr(1), to));
  }
  return known->second;
}

// Each character in its canonical spelling.
void string_rules::code_points(state_id from, char32_t low, char32_t high, state_id to) {
  for (char32_t c = low; c < 0x20 && c <= high; ++c) {
    const auto at = k_short_bytes.find(static_cast<char>(c));
    static constexpr char k_hex[] = "0123456789abcdef";
    std::string escape = std::string("u00") + k_hex[c >> 4] + k_hex[c & 15];
    if (at != k_short_bytes.npos) escape = k_short_letters[at];
    out_.read(from, '\\', tail(escape, to));
  }
  for (const char c : {'"', '\\'}) {
    const auto code_point = static_cast<char32_t>(c);
    if (low <= code_point && high >= code_point) out_.read(from, '\\', tail({&c, 1}, to));
  }
  const auto between = [&](char32_t lo, char32_t hi) {
    lo = std::max(lo, low);
    hi = std::min(hi, high);
    if (lo <= hi) utf8(from, lo, hi, to);
  };
  between(0x20, 0x21);
  between(0x23, 0x5B);
  between(0x5D, 0x10FFFF);
}

rule_id string_rules::of(const char_automaton& chars) {
  const rule_id out = out_.add_rule();
  std::vector<state_id> at(chars.states.size());
  for (auto& s : at) s = out_.add_state();
  out_.read(out_.start(out), '"', at[0]);
  for (std::size_t i = 0; i < chars.states.size() && out_.ok(); ++i) {
    const char_state& state = chars.states[i];
    if (state.everything) {
      body(at[i]);
    } else {
      for (const auto& range : state.ranges) code_points(at[i], range.low, range.high, at[range.to]);
    }
    if (state.accepts) out_.read(at[i], '"', out_.end(out));
  }
  return out;
}

void string_rules::one_of(state_id from, std::span<const std::string> texts, state_id to) {
  std::map<std::pair<state_id, char>, state_id> known;
  for (const auto& text : texts) {
    state_id at = from;
    for (std::size_t i = 0; i < text.size() && out_.spend(1); ++i) {
      if (i + 1 == text.size()) {
        out_.read(at, static_cast<unsigned char>(text[i]), to);
        break;
      }
      const auto [next, fresh] = known.try_emplace({at, text[i]}, 0);
      if (fresh) {
        next->second = out_.add_state();
        out_.read(at, static_cast<unsigned char>(text[i]), next->second);
      }
      at = next->second;
    }
  }
}

}  // namespace weir::engine::structure
