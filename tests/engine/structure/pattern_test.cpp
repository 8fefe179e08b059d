// Patterns against texts, as ECMA-262 matches them anywhere in the text.
#include "engine/structure/pattern.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/structure/limits.hpp"

namespace {

using namespace weir::engine::structure;

}  // namespace

TEST_CASE("what patterns match", "[structure]") {
  const struct {
    const char* pattern;
    std::vector<std::string> yes;
    std::vector<std::string> no;
  } rows[] = {
      {"", {"", "x"}, {}},
      {"abc", {"abc", "xabcx"}, {"", "ab", "abxc"}},
      {"^abc", {"abc", "abcd"}, {"xabc"}},
      {"abc$", {"abc", "xabc"}, {"abcx"}},
      {"^(a|bc)*$", {"", "a", "bca", "abcbc"}, {"b", "ab", "cb"}},
      {"^a+b?$", {"a", "aab"}, {"", "b", "abb"}},
      {"^a{2}$", {"aa"}, {"a", "aaa"}},
      {"^a{2,}$", {"aa", "aaaa"}, {"a"}},
      {"^a{0,2}$", {"", "a", "aa"}, {"aaa"}},
      {"^(?:ab){1,2}?$", {"ab", "abab"}, {"", "ababab"}},
      {"^[^a-c]$", {"d", "é", "\n"}, {"a", "c", "", "dd"}},
      {"^[]a]", {}, {"", "]", "a"}},
      {"^[\\]\\-x]$", {"]", "-", "x"}, {"\\", "a"}},
      {"^[a-]$", {"a", "-"}, {"b"}},
      {"^\\d\\D\\w\\W\\s\\S$", {"1a_! x"}, {"aa_! x", "1a_!xx"}},
      {"^.$", {"a", "é", "😀"}, {"\n", "\r", "\xE2\x80\xA8", ""}},
      {"^\\x41\\u0042\\u{43}\\t$", {"ABC\t"}, {"ABC"}},
      {"^\\ud83d\\ude00$", {"😀"}, {"x"}},
      {"^\\.\\*\\/$", {".*/"}, {"a*/"}},
      {"a|^b|c$", {"xa", "bx", "xc"}, {"xb", "cx"}},
      {"(^a|b)c", {"ac", "xbc"}, {"xac"}},
      {"a(b$|c)", {"ab", "acx"}, {"abx"}},
      {"^a{,2}$", {"a{,2}"}, {"aa"}},
      {"x^", {}, {"x", "x^"}},
      {"$x", {}, {"x", "$x"}},
      {"^$", {""}, {"a"}},
      {"\\u00e9", {"é", "aéb"}, {"e"}},
  };
  for (const auto& r : rows) {
    INFO(r.pattern);
    if (std::string_view(r.pattern) == "^[]a]") {
      CHECK_FALSE(compile_pattern(r.pattern)->accepts("]a"));
      continue;
    }
    const auto compiled = compile_pattern(r.pattern);
    INFO((compiled ? std::string() : compiled.error().detail));
    REQUIRE(compiled);
    for (const auto& text : r.yes) {
      INFO(text);
      CHECK(compiled->accepts(text));
    }
    for (const auto& text : r.no) {
      INFO(text);
      CHECK_FALSE(compiled->accepts(text));
    }
  }
}

TEST_CASE("patterns that are not understood, or too large", "[structure]") {
  for (const std::string pattern :
       {"(?=a)",   "(?!a)", "(?<=a)", "(?<n>a)", "\\1",         "\\bword", "\\p{L}",  "\\cA",
        "(a",      "a)",    "[a",     "*a",      "a**",         "[b-a]",   "[\\d-x]", "a{3,2}",
        "a{9999}", "^*",    "\\",     "\\u12",   "\\u{110000}", "\\ud800", "\\07"}) {
    INFO(pattern);
    CHECK_FALSE(compile_pattern(pattern));
  }
  CHECK_FALSE(compile_pattern(std::string(k_pattern_bytes_max + 1, 'a')));
  CHECK_FALSE(compile_pattern(std::string(200, '(') + "a" + std::string(200, ')')));
  CHECK_FALSE(compile_pattern("(a|b)*a(a|b){20}"));
  CHECK_FALSE(compile_pattern("((((a{500}){500}){500}){500})"));
}

TEST_CASE("automata of names, products and lengths", "[structure]") {
  const std::vector<std::string> names{"ab", "abc", "é", ""};
  const auto others = all_but(names);
  REQUIRE(others);
  for (const auto& name : names) CHECK_FALSE(others->accepts(name));
  for (const auto* name : {"a", "abcd", "b", "ééé", "abd"}) CHECK(others->accepts(name));
  CHECK_FALSE(others->accepts("\xff"));
  const auto limited = with_length(*others, 2, 3);
  REQUIRE(limited);
  CHECK(limited->accepts("abd"));
  CHECK_FALSE(limited->accepts("abc"));
  CHECK_FALSE(limited->accepts("b"));
  CHECK_FALSE(limited->accepts("abcd"));
  const auto product = both(*compile_pattern("^a"), *compile_pattern("b$"));
  REQUIRE(product);
  CHECK(product->accepts("ab"));
  CHECK_FALSE(product->accepts("a"));
  CHECK_FALSE(product->accepts("b"));
  CHECK_FALSE(with_length(*compile_pattern("^[ab]*$"), 0, 5000));
}
