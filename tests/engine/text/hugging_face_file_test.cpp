#include "engine/text/hugging_face_file.hpp"

#include <catch2/catch.hpp>
#include <map>

#include "engine/text/byte_alphabet.hpp"
#include "tests/engine/text/support.hpp"

namespace weir::engine::text {
namespace {

using ids = std::vector<std::int32_t>;

// A vocabulary of the 256 bytes, whose ids are their values, and `more` from 256 on.
std::string vocab(const std::vector<std::string>& more) {
  std::map<std::string, std::string> letters;  // byte -> letter of the alphabet
  for (char32_t c = 0; c < 256 + 68; ++c) {
    std::string letter(1, static_cast<char>(c));
    if (c >= 0x80) letter = {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
    if (const auto byte = bytes_of_alphabet(letter)) letters[*byte] = letter;
  }
  REQUIRE(letters.size() == 256);
  std::string out;
  for (const auto& [byte, letter] : letters) {
    const bool escape = letter == "\"" || letter == "\\";
    out += (out.empty() ? "\"" : ",\"") + std::string(escape ? "\\" : "") + letter +
           "\":" + std::to_string(static_cast<std::uint8_t>(byte[0]));
  }
  for (std::size_t i = 0; i < more.size(); ++i) out += ",\"" + more[i] + "\":" + std::to_string(256 + i);
  return out;
}

struct file {
  std::vector<std::string> tokens;
  std::string merges;
  std::string model_more;
  std::string added;
  std::string normalizer = "null";
  std::string pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})";

  std::string json() const {
    return R"({"added_tokens":[)" + added + R"(],"normalizer":)" + normalizer + R"(,"pre_tokenizer":)" +
           pre_tokenizer + R"(,"model":{"type":"BPE",)" + model_more + R"("vocab":{)" + vocab(tokens) +
           R"(},"merges":[)" + merges + "]}}";
  }
};

std::shared_ptr<const tokenizer> make(const file& f) {
  const auto tok = make_hugging_face_tokenizer(f.json());
  if (!tok) FAIL(tok.error().detail);
  return *tok;
}

TEST_CASE("only listed pairs merge, in the list's order and not that of ids") {
  const auto tok = make({.tokens = {"ab", "bc", "abc", "abcd"}, .merges = R"("b c", "a bc", ["a", "b"])"});
  CHECK(encoded(*tok, "abc") == ids{258});  // bc first, though ab has the lower id
  CHECK(encoded(*tok, "ab") == ids{256});
  CHECK(encoded(*tok, "abcd") == ids{258, 'd'});  // a token that no merge reaches
  CHECK(encoded(*tok, "bcab") == ids{257, 256});
}

TEST_CASE("a pair is its two tokens, not their bytes joined") {
  const auto tok = make({.tokens = {"ab", "bc", "abc"}, .merges = R"("a b", "ab c", "b c")"});
  CHECK(encoded(*tok, "abc") == ids{258});
  const auto other = make({.tokens = {"ab", "bc", "abc"}, .merges = R"("a b", "b c", "a bc")"});
  CHECK(encoded(*other, "abc") == ids{256, 'c'});  // (ab, c) is not listed
}

TEST_CASE("ignore_merges takes a piece that is a token whole") {
  file f{.tokens = {"ab", "abcd"}, .merges = R"("a b")"};
  CHECK(encoded(*make(f), "abcd") == ids{256, 'c', 'd'});
  f.model_more = R"("ignore_merges":true,)";
  CHECK(encoded(*make(f), "abcd") == ids{257});
  CHECK(encoded(*make(f), "abcde") == ids{256, 'c', 'd', 'e'});
}

TEST_CASE("long pieces merge as short ones do, by list") {
  const auto tok = make({.tokens = {"aa", "aaaa", "aab"}, .merges = R"("a a", "aa b", "aa aa")"});
  for (const std::size_t n : {10UL, 63UL, 64UL, 65UL, 200UL, 20'001UL}) {
    const auto got = encoded(*tok, std::string(n, 'a') + "b");
    ids expected(n / 2 / 2, 257);
    if (n % 2 == 0) {
      expected.assign((n / 2 - 1) / 2, 257);
      if ((n / 2 - 1) % 2) expected.push_back(256);
      expected.push_back(258);
    } else {
      if (n / 2 % 2) expected.push_back(256);
      expected.push_back('a');
      expected.push_back('b');
    }
    INFO(n);
    CHECK(got == expected);
  }
}

TEST_CASE("added tokens: special ones only when asked for, others always, the longest of two") {
  const auto tok = make({.tokens = {"xy", "<s>"},
                         .merges = R"("x y")",
                         .added = R"({"id":257,"content":"<s>","special":true},)"
                                  R"({"id":300,"content":"<t>","special":false},)"
                                  R"({"id":301,"content":"<t>><u>","special":false})"});
  CHECK(encoded(*tok, "xy<s>xy") == ids{256, '<', 's', '>', 256});
  CHECK(encoded_with_specials(*tok, "xy<s>xy") == ids{256, 257, 256});
  CHECK(encoded(*tok, "xy<t>xy<t>><u>") == ids{256, 300, 256, 301});
  CHECK(tok->is_special(257));
  CHECK_FALSE(tok->is_special(300));
  CHECK(tok->special_id("<s>") == 257);
  CHECK_FALSE(tok->special_id("<t>").has_value());
  CHECK(tok->token_bytes(301) == "<t>><u>");
  CHECK(tok->token_bytes(299).empty());
  CHECK(tok->vocab_size() == 302);
}

TEST_CASE("no safe cut within an added token that text may have") {
  const auto tok = make({.added = R"({"id":300,"content":"<a b c>","special":false})"});
  CHECK(tok->safe_cut("<a b c> d", 1) == 9);
  CHECK(tok->safe_cut("<a b c d", 1) == 2);
  CHECK(tok->safe_cut("x <a b c> d e", 0) == 1);
  CHECK(tok->safe_cut("x <a b c> d e", 2) == 11);
}

TEST_CASE("text is normalized where the file says so") {
  const auto tok = make({.tokens = {"Ã©"}, .merges = R"("Ã ©")", .normalizer = R"({"type":"NFC"})"});
  CHECK(encoded(*tok, "e\xCC\x81") == ids{256});
  CHECK(encoded(*tok, "\xC3\xA9") == ids{256});
  CHECK(encoded(*tok,
                "\xFF"
                "e\xCC\x81\xFF") == ids{0xFF, 256, 0xFF});
}

TEST_CASE("what a file asks for and is not there is named") {
  const auto split = [](const std::string& regex, const std::string& behavior) {
    return R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":")" + regex +
           R"("},"behavior":")" + behavior + R"(","invert":false},{"type":"ByteLevel","use_regex":false}]})";
  };
  const std::string gpt2 =
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+)";
  CHECK(make_hugging_face_tokenizer(file{.pre_tokenizer = split(gpt2, "Isolated")}.json()));
  const std::pair<std::string, file> rows[] = {
      {"normalizer \"Lowercase\"", {.normalizer = R"({"type":"Lowercase"})"}},
      {"normalizer \"Sequence\"", {.normalizer = R"({"type":"Sequence","normalizers":[{"type":"NFD"}]})"}},
      {"pattern \"\\w+\"", {.pre_tokenizer = split(R"(\\w+)", "Isolated")}},
      {"\"MergedWithNext\"", {.pre_tokenizer = split(gpt2, "MergedWithNext")}},
      {"\"Removed\"", {.pre_tokenizer = split(gpt2, "Removed")}},
      {"pre_tokenizer", {.pre_tokenizer = "null"}},
      {"ByteLevel", {.pre_tokenizer = R"({"type":"Metaspace"})"}},
      {"add_prefix_space", {.pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":true})"}},
      {"model.byte_fallback", {.model_more = R"("byte_fallback":true,)"}},
      {"continuing_subword_prefix", {.model_more = R"("continuing_subword_prefix":"##",)"}},
      {"end_of_word_suffix", {.model_more = R"("end_of_word_suffix":"</w>",)"}},
      {"model.dropout", {.model_more = R"("dropout":0.1,)"}},
      {"lstrip", {.added = R"({"id":300,"content":"x","lstrip":true})"}},
      {"single_word", {.added = R"({"id":300,"content":"x","single_word":true})"}},
      {"normalized",
       {.added = R"({"id":300,"content":"x","normalized":true})", .normalizer = R"({"type":"NFC"})"}},
  };
  for (const auto& [name, f] : rows) {
    INFO(name);
    const auto tok = make_hugging_face_tokenizer(f.json());
    REQUIRE_FALSE(tok);
    CHECK(tok.error().code == errc::unsupported);
    CHECK(tok.error().detail.find(name) != std::string::npos);
  }
  const auto wordpiece = make_hugging_face_tokenizer(R"({"model":{"type":"WordPiece"}})");
  REQUIRE_FALSE(wordpiece);
  CHECK(wordpiece.error().code == errc::unsupported);
}

TEST_CASE("malformed files") {
  std::string no_byte = file{}.json();
  no_byte.replace(no_byte.find("\"a\":"), 4, "\"zz\":");
  const std::pair<const char*, std::string> rows[] = {
      {"empty", ""},
      {"no object", "[]"},
      {"no model", "{}"},
      {"trailing text", file{}.json() + "x"},
      {"a byte missing", no_byte},
      {"id twice", file{.model_more = R"("vocab":{"a":1,"b":1},)"}.json()},
      {"negative id", file{.model_more = R"("vocab":{"a":-1},)"}.json()},
      {"id too large", file{.model_more = R"("vocab":{"a":1048576},)"}.json()},
      {"id no number", file{.model_more = R"("vocab":{"a":"1"},)"}.json()},
      {"vocab no object", file{.model_more = R"("vocab":[],)"}.json()},
      {"the same bytes twice", file{.tokens = {"ab", "ab"}}.json()},
      {"merge of no token", file{.merges = R"("a b")"}.json()},
      {"merge with one token", file{.merges = R"("ab")"}.json()},
      {"merge of three", file{.merges = R"(["a","b","c"])"}.json()},
      {"merge no string", file{.merges = "1"}.json()},
      {"added id twice", file{.added = R"({"id":300,"content":"x"},{"id":300,"content":"y"})"}.json()},
      {"added content twice", file{.added = R"({"id":300,"content":"x"},{"id":301,"content":"x"})"}.json()},
      {"added without content", file{.added = R"({"id":300})"}.json()},
      {"added without id", file{.added = R"({"content":"x"})"}.json()},
      {"added id too large", file{.added = R"({"id":4294967297,"content":"x"})"}.json()},
      {"added content too long",
       file{.added = R"({"id":300,"content":")" + std::string(257, 'x') + "\"}"}.json()}};
  for (const auto& [name, json] : rows) {
    INFO(name);
    const auto tok = make_hugging_face_tokenizer(json);
    REQUIRE_FALSE(tok);
    CHECK(tok.error().code == errc::bad_model);
    CHECK(tok.error().detail.find("tokenizer.json") == 0);
  }
}

TEST_CASE("the fingerprint tells apart what gives other ids") {
  const file base{.tokens = {"ab", "bc"}, .merges = R"("a b", "b c")"};
  file order = base, normalized = base, whole = base;
  order.merges = R"("b c", "a b")";
  normalized.normalizer = R"({"type":"NFC"})";
  whole.model_more = R"("ignore_merges":true,)";
  std::vector<std::uint64_t> prints;
  for (const auto& f : {base, order, normalized, whole}) prints.push_back(make(f)->fingerprint());
  CHECK(make(base)->fingerprint() == prints[0]);
  for (std::size_t i = 0; i < prints.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) CHECK(prints[i] != prints[j]);
  }
}

}  // namespace
}  // namespace weir::engine::text
