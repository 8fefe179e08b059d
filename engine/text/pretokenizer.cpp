#include "engine/text/pretokenizer.hpp"

#include <cstdint>
#include <limits>

#include "engine/text/deepseek_pattern.hpp"
#include "engine/text/scan_cursor.hpp"

namespace weir::engine::text {
namespace {

// What sets the patterns of one family apart.
struct pattern_rules {
  bool han_runs;          // [Han]+ comes first
  bool words_by_case;     // upper and lower parts, with a contraction behind; else a contraction first
  bool any_case;          // contractions
  bool space_opens_only;  // only ' ' may open a word, and it may open numbers too
  bool newlines;          // behind symbols, and \s*[\r\n]+
  bool slashes;           // behind symbols too
  int numbers_max;        // characters in a piece of numbers
};

constexpr int k_unlimited = std::numeric_limits<int>::max();
constexpr pattern_rules k_kimi{true, true, true, false, true, false, 3};
constexpr pattern_rules k_o200k{false, true, true, false, true, true, 3};
constexpr pattern_rules k_cl100k{false, false, true, false, true, false, 3};
constexpr pattern_rules k_qwen2{false, false, true, false, true, false, 1};
constexpr pattern_rules k_gpt2{false, false, false, true, false, false, k_unlimited};

char lower_ascii(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

// The end of the contraction at `at`, or `at`.
const char* after_contraction(const char* at, const char* end, bool any_case) {
  if (end - at < 2 || *at != '\'') return at;
  const auto lower = [any_case](char c) { return any_case ? lower_ascii(c) : c; };
  const char c = lower(at[1]);
  if (c == 's' || c == 't' || c == 'm' || c == 'd') return at + 2;
  if (end - at < 3) return at;
  if (any_case && at[1] == '\xC5' && at[2] == '\xBF') return at + 3;  // U+017F, which folds to s
  const char d = lower(at[2]);
  const bool two_letters = ((c == 'r' || c == 'v') && d == 'e') || (c == 'l' && d == 'l');
  return two_letters ? at + 3 : at;
}

struct word_ends {
  const char* second_rule = nullptr;  // [upper]* [lower]+, or null where it does not match
  const char* third_rule = nullptr;   // [upper]+ [lower]*, only looked at where the second rule fails
};

// Greedy [upper]* stops before a character that is not upper. If that one is lower, the rest follows.
// Otherwise [upper]* gives back until the character given back is lower too, and [lower]+ takes just that
// one: all behind it are upper only.
word_ends match_word(scan_cursor c) {
  const char* first = c.at;
  const char* after_last_both = nullptr;
  while (c.is(k_upper)) {
    const bool both = c.is(k_lower);
    c.advance();
    if (both) after_last_both = c.at;
  }
  if (c.is(k_lower)) {
    c.skip(k_lower);
    return {c.at, nullptr};
  }
  return {after_last_both, c.at > first ? c.at : nullptr};
}

// Words by case, or null. A mark is the only character that can be the opener as well as part of the word.
const char* match_cased(const scan_cursor& c) {
  scan_cursor word = c;
  if (c.is_opener()) word.advance();
  const word_ends ends = match_word(word);
  if (ends.second_rule != nullptr) return after_contraction(ends.second_rule, c.end, true);
  if (c.is_opener() && c.is(k_lower)) return after_contraction(word.at, c.end, true);
  if (ends.third_rule != nullptr) return after_contraction(ends.third_rule, c.end, true);
  return nullptr;
}

// A contraction or [opener]? L+, or null.
template <pattern_rules R>
const char* match_plain(const scan_cursor& c) {
  if (const char* end = after_contraction(c.at, c.end, R.any_case); end != c.at) return end;
  scan_cursor word = c;
  if (R.space_opens_only ? c.size == 1 && *c.at == ' ' : c.is_opener()) word.advance();
  if (!word.is(k_letter)) return nullptr;
  word.skip(k_letter);
  return word.at;
}

template <pattern_rules R>
const char* match_numbers(scan_cursor c) {
  if (R.space_opens_only && *c.at == ' ') c.advance();
  if (!c.is(k_number)) return nullptr;
  for (int i = 0; i < R.numbers_max && c.is(k_number); ++i) c.advance();
  return c.at;
}

template <pattern_rules R>
const char* match_first(scan_cursor c) {
  if (R.han_runs && c.is(k_han)) {
    c.skip(k_han);
    return c.at;
  }
  if (const char* end = R.words_by_case ? match_cased(c) : match_plain<R>(c)) return end;
  if (const char* end = match_numbers<R>(c)) return end;
  scan_cursor symbols = c;
  if (*c.at == ' ') symbols.advance();
  if (!symbols.is_symbol()) return match_space(c, R.newlines);
  while (symbols.is_symbol()) symbols.advance();
  while (R.newlines &&
         (symbols.is(k_newline) || (R.slashes && symbols.at < symbols.end && *symbols.at == '/')))
    symbols.advance();
  return symbols.at;
}

template <pattern_rules R>
std::size_t piece_bytes(const unicode_classes& classes, std::string_view text) {
  const char* end = match_first<R>(scan_cursor(classes, text.data(), text.data() + text.size()));
  return static_cast<std::size_t>(end - text.data());
}

struct named_pattern {
  std::string_view regex;
  split_pattern pattern;
};

// As tokenizer.json files have them.
constexpr named_pattern k_named_patterns[] = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
     R"(\s*[\r\n]+|\s+(?!\S)|\s+)",
     split_pattern::cl100k},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
     R"(\s*[\r\n]+|\s+(?!\S)|\s+)",
     split_pattern::qwen2},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)"
     R"(\s*[\r\n]+|\s+(?!\S)|\s+)",
     split_pattern::o200k},
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", split_pattern::gpt2},
    {"\\p{N}{1,3}\n[一-龥぀-ゟ゠-ヿ]+\n"
     R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|)"
     "[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
     split_pattern::deepseek_v3},
};

}  // namespace

std::optional<split_pattern> recognise_pattern(std::string_view regex) {
  for (const named_pattern& known : k_named_patterns) {
    if (known.regex == regex) return known.pattern;
  }
  return std::nullopt;
}

std::size_t pretokenizer::first_piece_bytes(std::string_view text) const {
  switch (pattern_) {
    case split_pattern::kimi:
      return piece_bytes<k_kimi>(classes_, text);
    case split_pattern::o200k:
      return piece_bytes<k_o200k>(classes_, text);
    case split_pattern::cl100k:
      return piece_bytes<k_cl100k>(classes_, text);
    case split_pattern::qwen2:
      return piece_bytes<k_qwen2>(classes_, text);
    case split_pattern::gpt2:
      return piece_bytes<k_gpt2>(classes_, text);
    case split_pattern::deepseek_v3:
      return deepseek_piece_bytes(classes_, text);
  }
  return text.size();
}

}  // namespace weir::engine::text
