#include "engine/text/pretokenizer.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace weir::engine::text {
namespace {

std::vector<std::string> pieces(std::string_view text) {
  static const pretokenizer pre(split_pattern::kimi);
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

TEST_CASE("every place of a long run costs the same") {
  for (const std::string unit :
       {"a", "A", "\u00AAA", " ", "\n", " \n", "'", "1", "\u0301", "\u0301A", "中", "a'", ". "}) {
    INFO(unit);
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    std::size_t bytes = 0;
    for (const auto& piece : pieces(text)) bytes += piece.size();
    CHECK(bytes == text.size());
  }
}

}  // namespace
}  // namespace weir::engine::text
