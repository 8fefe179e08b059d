#include "engine/text/pretokenizer.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace weir::engine::text {
namespace {

std::vector<std::string> pieces(std::string_view text, split_pattern pattern = split_pattern::kimi) {
  const pretokenizer pre(pattern);
  std::vector<std::string> out;
  while (!text.empty()) {
    out.emplace_back(text.substr(0, pre.first_piece_bytes(text)));
    text.remove_prefix(out.back().size());
  }
  return out;
}

struct row {
  const char* name;
  std::string text;
  std::vector<std::string> pieces;
};

// Expected pieces are those of Python's regex module with the published pattern.
const row k_rows[] = {
    {"words take the space before", "Hello, world! x", {"Hello", ",", " world", "!", " x"}},
    {"case change", "HTTPServer camelCase ABCd", {"HTTPServer", " camel", "Case", " ABCd"}},
    {"upper only", "ABC DEF", {"ABC", " DEF"}},
    {"contractions", "it's I'LL we'Ve o'clock 's", {"it's", " I'LL", " we'Ve", " o", "'clock", " '", "s"}},
    {"contraction with long s", "a\u2019s a'\u017F", {"a", "\u2019s", " a'\u017F"}},
    {"any symbol opens a word", "(word .word \"Word", {"(word", " .", "word", " \"", "Word"}},
    {"digits in threes", "1234567 12a", {"123", "456", "7", " ", "12", "a"}},
    {"a digit never takes a space", "a 1", {"a", " ", "1"}},
    {"Han by itself", "我是Weir。好", {"我是", "Weir", "。", "好"}},
    {"Han does not join a word", "a中b", {"a", "中", "b"}},
    {"Han numerals and marks", "〇々1〇", {"〇々", "1〇"}},
    {"kana is a letter", "これはAPI", {"これは", "API"}},
    {"white space leaves one for the word", "a   b", {"a", "  ", " b"}},
    {"newlines end white space", "a \n\n  b", {"a", " \n\n", " ", " b"}},
    {"trailing white space", "a  \t", {"a", "  \t"}},
    {"symbols take newlines", "a;\n\nb", {"a", ";\n\n", "b"}},
    {"tab opens a word", "\tword", {"\tword"}},
    {"newline does not", "\nword", {"\n", "word"}},
    {"a mark alone", "\u0301", {"\u0301"}},
    {"a mark before upper case", "\u0301ABC", {"\u0301", "ABC"}},
    {"a mark before lower case", "\u0301abc", {"\u0301abc"}},
    {"last of both kinds ends the word", "\u00AAABC", {"\u00AA", "ABC"}},
    {"title case letters", "\u01C5\u01C5a", {"\u01C5\u01C5a"}},
    {"no-break space opens a word", "\u00A0a", {"\u00A0a"}},
    {"U+180E is no space", "\u180E\u180Ea", {"\u180E\u180E", "a"}},
    {"symbol runs", "+-*/= ==", {"+-*/=", " =="}},
};

TEST_CASE("pieces of the published pattern") {
  for (const auto& r : k_rows) {
    INFO(r.name);
    CHECK(pieces(r.text) == r.pieces);
  }
}

constexpr split_pattern k_patterns[] = {split_pattern::kimi,   split_pattern::o200k,
                                        split_pattern::cl100k, split_pattern::qwen2,
                                        split_pattern::gpt2,   split_pattern::deepseek_v3};

TEST_CASE("every place of a long run costs the same") {
  for (const auto pattern : k_patterns) {
    for (const std::string unit : {"a", "A", "\u00AAA", " ", "\n", " \n", "'", "1", "\u0301", "\u0301A", "中",
                                   "a'", ". ", "\x01", "/\n", "・", ".a"}) {
      INFO(static_cast<int>(pattern) << " " << unit);
      std::string text;
      while (text.size() < 100'000) text += unit;
      std::size_t bytes = 0;
      for (const auto& piece : pieces(text, pattern)) bytes += piece.size();
      CHECK(bytes == text.size());
    }
  }
}

struct pattern_row {
  const char* name;
  split_pattern pattern;
  std::string text;
  std::vector<std::string> pieces;
};

const pattern_row k_pattern_rows[] = {
    {"Han joins a word", split_pattern::o200k, "a中b 中", {"a中b", " 中"}},
    {"a Han mark is a mark", split_pattern::o200k, "a\u302Ab", {"a\u302Ab"}},
    {"a Han radical is a symbol", split_pattern::o200k, "a⺀b", {"a", "⺀b"}},
    {"slashes behind symbols", split_pattern::o200k, "a;\n/\n/b", {"a", ";\n/\n/", "b"}},
    {"no case, a mark ends a word",
     split_pattern::cl100k,
     "camelCase e\u0301a",
     {"camelCase", " e", "\u0301a"}},
    {"a contraction comes first", split_pattern::cl100k, "it'sx I'LL", {"it", "'s", "x", " I", "'LL"}},
    {"long s folds", split_pattern::cl100k, "a'\u017F", {"a", "'\u017F"}},
    {"digits in threes", split_pattern::cl100k, "12345 6", {"123", "45", " ", "6"}},
    {"digits alone", split_pattern::qwen2, "123 6", {"1", "2", "3", " ", "6"}},
    {"numbers take a space", split_pattern::gpt2, "1234567 89 a", {"1234567", " 89", " a"}},
    {"only a space opens", split_pattern::gpt2, "(word\tx", {"(", "word", "\t", "x"}},
    {"contractions in lower case only", split_pattern::gpt2, "I'll I'LL", {"I", "'ll", " I", "'", "LL"}},
    {"newlines are white space", split_pattern::gpt2, "a;\n\n  b\n", {"a", ";", "\n\n ", " b", "\n"}},
    {"numbers before all", split_pattern::deepseek_v3, "a1234 5", {"a", "123", "4", " ", "5"}},
    {"kana and Han with their middle dot", split_pattern::deepseek_v3, "xか・中 y", {"x", "か・中", " y"}},
    {"punctuation opens ASCII words", split_pattern::deepseek_v3, ".word ,é", {".word", " ,", "é"}},
    {"marks are of the word", split_pattern::deepseek_v3, "e\u0301a", {"e\u0301a"}},
    {"what nothing matches", split_pattern::deepseek_v3, "\x01\x02\x03", {"\x01\x02\x03"}},
    {"the last of it opens a word",
     split_pattern::deepseek_v3,
     "\x01\x02"
     "a",
     {"\x01",
      "\x02"
      "a"}},
    {"a number ends white space", split_pattern::deepseek_v3, "a  1", {"a", "  ", "1"}},
};

TEST_CASE("pieces of the other patterns") {
  for (const auto& r : k_pattern_rows) {
    INFO(r.name);
    CHECK(pieces(r.text, r.pattern) == r.pieces);
  }
}

}  // namespace
}  // namespace weir::engine::text
