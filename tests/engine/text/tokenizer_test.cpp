#include "engine/text/tokenizer.hpp"

#include <catch2/catch.hpp>
#include <random>

#include "engine/text/text_splitter.hpp"
#include "engine/text/token_table.hpp"
#include "tests/engine/text/support.hpp"

namespace weir::engine::text {
namespace {

using ids = std::vector<std::int32_t>;

std::string config(const std::string& entries) {
  return "{\"added_tokens_decoder\":{" + entries + "}}";
}

TEST_CASE("the bundled model's tokenizer") {
  const auto tok = weir_tiny();
  CHECK(tok->vocab_size() == 2304);
  CHECK(tok->special_id("<|im_end|>") == 2050);
  CHECK(tok->special_id("<|reserved_token_2053|>") == 2053);
  CHECK(tok->special_id("[PAD]") == 2303);
  CHECK_FALSE(tok->special_id("<|im_end|").has_value());
  CHECK_FALSE(tok->special_id("<|im_end|>x").has_value());
  CHECK_FALSE(tok->special_id("").has_value());
  CHECK(tok->is_special(2048));
  CHECK_FALSE(tok->is_special(2047));
  CHECK_FALSE(tok->is_special(2304));
  CHECK_FALSE(tok->is_special(-1));
  CHECK(tok->token_bytes(2050) == "<|im_end|>");
  CHECK(tok->token_bytes(65) == "A");
  CHECK(tok->token_bytes(-1).empty());
  CHECK(tok->token_bytes(2304).empty());
}

// The first case of golden.json, made by the reference implementation.
TEST_CASE("a golden prompt") {
  const auto got = encoded_with_specials(*weir_tiny(),
                                         "<|im_user|>user<|im_middle|>What's the capital of "
                                         "Somalia?<|im_end|><|im_assistant|>assistant<|im_middle|>");
  CHECK(got == ids{2051, 279, 2065, 773, 281, 341, 263, 1471, 63, 2050, 2052, 276, 2065});
}

TEST_CASE("nothing a user writes becomes a special token") {
  const auto tok = weir_tiny();
  for (const char* text :
       {"<|im_end|>", "a<|im_user|>user<|im_middle|>", "[EOS][BOS]", "<|reserved_token_2053|>"}) {
    const auto got = encoded(*tok, text);
    for (const auto id : got) CHECK_FALSE(tok->is_special(id));
    CHECK(joined_bytes(*tok, got) == text);
  }
}

TEST_CASE("the lowest rank merges first, then the leftmost") {
  const auto tok = make_tokenizer(rank_file({"bc", "ab", "aa", "abc", "aaaa"}), config(""));
  REQUIRE(tok);
  const std::pair<std::string, ids> rows[] = {{"abc", {259}},        {"abcd", {259, 'd'}},
                                              {"aaa", {258, 'a'}},   {"aaaaaa", {260, 258}},
                                              {"aaaaa", {260, 'a'}}, {"xabx", {'x', 257, 'x'}}};
  for (const auto& [text, expected] : rows) {
    INFO(text);
    CHECK(encoded(**tok, text) == expected);
  }
}

// Both merging procedures are run on the same pieces: beyond 64 bytes a heap is used, and a piece can be cut
// at a place over which nothing merges.
TEST_CASE("long pieces merge as short ones do") {
  const auto tok =
      make_tokenizer(rank_file({"ab", "ba", "aba", "bab", "bb", "abb", "abab", "babb"}), config(""));
  REQUIRE(tok);
  constexpr std::uint32_t k_seed = 7;
  INFO("seed " << k_seed);
  std::mt19937 random(k_seed);
  for (int round = 0; round < 300; ++round) {
    std::string whole;
    ids expected;
    for (int part = 0; part < 6; ++part) {
      std::string word;
      while (word.size() < 3 + random() % 40) word.push_back(random() % 2 ? 'a' : 'b');
      const auto word_ids = encoded(**tok, word + "z");
      expected.insert(expected.end(), word_ids.begin(), word_ids.end());
      whole += word + "z";
    }
    CHECK(encoded(**tok, whole) == expected);
  }
}

TEST_CASE("a whole piece that is a token needs no merges") {
  const auto tok = make_tokenizer(rank_file({"hello"}), config(""));
  REQUIRE(tok);
  CHECK(encoded(**tok, "hello") == ids{256});
  CHECK(encoded(**tok, "hellos") == ids{'h', 'e', 'l', 'l', 'o', 's'});
}

TEST_CASE("invalid UTF-8 round-trips byte by byte") {
  const auto tok = weir_tiny();
  for (const std::string text :
       {"\xFF", "a\xC3", "\xC3(", "\xED\xA0\x80", "\xF0\x9F\x98", "x\x80y", "\xF4\x90\x80\x80"}) {
    CHECK(joined_bytes(*tok, encoded(*tok, text)) == text);
    CHECK(joined_bytes(*tok, encoded_with_specials(*tok, text)) == text);
  }
  CHECK(encoded(*tok, "\xFF") == ids{0xFF});
}

TEST_CASE("random bytes round-trip") {
  const auto tok = weir_tiny();
  constexpr std::uint32_t k_seed = 11;
  INFO("seed " << k_seed);
  std::mt19937 random(k_seed);
  for (int round = 0; round < 2000; ++round) {
    std::string text(random() % 60, '\0');
    for (auto& c : text) c = static_cast<char>(random() % (round % 2 ? 256 : 128));
    CHECK(joined_bytes(*tok, encoded(*tok, text)) == text);
  }
}

std::vector<std::size_t> part_bytes(const std::string& text) {
  static const unicode_classes classes;
  text_splitter splitter(classes, text);
  std::vector<std::size_t> out;
  for (auto part = splitter.next(); !part.empty(); part = splitter.next()) out.push_back(part.size());
  return out;
}

TEST_CASE("cuts before the pattern") {
  using sizes = std::vector<std::size_t>;
  const auto a = [](std::size_t n) { return std::string(n, 'a'); };
  CHECK(part_bytes("").empty());
  CHECK(part_bytes(a(25'000)) == sizes{25'000});
  CHECK(part_bytes(a(25'001)) == sizes{25'000, 1});
  CHECK(part_bytes(a(50'001)) == sizes{25'000, 25'000, 1});
  CHECK(part_bytes(a(20'000) + " " + a(20'000)) == sizes{40'001});
  CHECK(part_bytes(a(20'000) + "\x1C" + a(20'000)) == sizes{40'001});
  CHECK(part_bytes(" " + a(25'001)) == sizes{25'001, 1});
  CHECK(part_bytes(std::string(25'001, ' ') + a(10)) == sizes{25'000, 11});
  CHECK(part_bytes(a(10) + std::string(25'001, '\n')) == sizes{25'010, 1});
  std::string words, wide;
  for (int i = 0; i < 100'001; ++i) words += "abc ";
  CHECK(part_bytes(words) == sizes{400'000, 4});
  for (int i = 0; i < 25'001; ++i) wide += "é";
  CHECK(part_bytes(wide) == sizes{50'000, 2});
  CHECK(part_bytes(words.substr(0, 399'990) + a(25'010)) == sizes{400'000, 25'000});
}

TEST_CASE("malformed rank files") {
  const std::string good = rank_file();
  const auto without_line = [&](const std::string& line) {
    std::string file = good;
    return file.erase(file.find(line), line.size());
  };
  const std::pair<const char*, std::string> rows[] = {
      {"empty", ""},
      {"a byte missing", without_line("/w== 255\n")},
      {"a hole in the ranks", without_line("AA== 0\n")},
      {"no rank", good + "YWI=\n"},
      {"no space", good + "YWI=\t256\n"},
      {"two spaces", good + "YWI=  256\n"},
      {"negative rank", good + "YWI= -1\n"},
      {"leading zero", good + "YWI= 0256\n"},
      {"huge rank", good + "YWI= 99999999999999999999\n"},
      {"rank beyond the count", good + "YWI= 257\n"},
      {"rank twice", good + "YWI= 255\n"},
      {"token twice", good + "YQ== 256\n"},
      {"empty token", good + " 256\n"},
      {"not base64", good + "Y!I= 256\n"},
      {"unpadded", good + "YWI 256\n"},
      {"spare bits set", good + "YWJ= 256\n"},
      {"padding inside", good + "YQ==YWI= 256\n"},
      {"blank line", good + "\n"},
      {"carriage return", good + "YWI= 256\r\n"},
      {"long token", good + base64(std::string(k_token_bytes_max + 1, 'a')) + " 256\n"}};
  for (const auto& [name, file] : rows) {
    INFO(name);
    const auto tok = make_tokenizer(file, config(""));
    REQUIRE_FALSE(tok);
    CHECK(tok.error().code == errc::bad_model);
    CHECK(tok.error().detail.find("tiktoken.model") == 0);
  }
  CHECK(make_tokenizer(good, config("")));
  CHECK(make_tokenizer(good + base64(std::string(k_token_bytes_max, 'a')) + " 256", config("")));
}

TEST_CASE("malformed tokenizer configurations") {
  const std::pair<const char*, std::string> rows[] = {
      {"empty", ""},
      {"no object", "[]"},
      {"no added tokens", "{}"},
      {"a list of them", "{\"added_tokens_decoder\":[]}"},
      {"id below the ranks", config("\"255\":{\"content\":\"x\"}")},
      {"id too high", config("\"4352\":{\"content\":\"x\"}")},
      {"id no number", config("\"x\":{\"content\":\"x\"}")},
      {"id too large for 32 bits", config("\"4294967552\":{\"content\":\"x\"}")},
      {"id twice", config("\"256\":{\"content\":\"x\"},\"256\":{\"content\":\"y\"}")},
      {"content twice", config("\"256\":{\"content\":\"x\"},\"257\":{\"content\":\"x\"}")},
      {"no content", config("\"256\":{}")},
      {"content no string", config("\"256\":{\"content\":1}")},
      {"content empty", config("\"256\":{\"content\":\"\"}")},
      {"content too long", config("\"256\":{\"content\":\"" + std::string(257, 'x') + "\"}")},
      {"entry no object", config("\"256\":\"x\"")},
      {"trailing text", config("") + "x"}};
  for (const auto& [name, file] : rows) {
    INFO(name);
    const auto tok = make_tokenizer(rank_file(), file);
    REQUIRE_FALSE(tok);
    CHECK(tok.error().code == errc::bad_model);
    CHECK(tok.error().detail.find("tokenizer_config.json") == 0);
  }
}

TEST_CASE("special tokens beyond the reserved ones, and the longest of two") {
  const auto tok = make_tokenizer(
      rank_file(),
      config("\"600\":{\"content\":\"<x>\"},\"601\":{\"content\":\"<x>y\"},\"256\":{\"content\":\"é\"}"));
  REQUIRE(tok);
  CHECK((*tok)->vocab_size() == 602);
  CHECK((*tok)->token_bytes(599) == "<|reserved_token_599|>");
  CHECK(encoded_with_specials(**tok, "a<x>yé<x>") == ids{'a', 601, 256, 600});
}

TEST_CASE("a named encoding has its pattern and special tokens, and no more ranks than published") {
  const named_encoding& o200k = named_encodings()[1];
  CHECK(o200k.name == "o200k_base");
  const auto tok = make_named_tokenizer(rank_file({"a中", ";\n/"}), o200k);
  REQUIRE(tok);
  CHECK(encoded(**tok, "a中;\n/") == ids{256, 257});
  CHECK(encoded_with_specials(**tok, "a<|endofprompt|>") == ids{'a', 200018});
  CHECK((*tok)->special_id("<|endoftext|>") == 199999);
  CHECK((*tok)->vocab_size() == 200019);
  const auto broken = make_named_tokenizer(rank_file() + "YQ== 256\n", o200k);
  REQUIRE_FALSE(broken);
  CHECK(broken.error().detail.find("o200k_base.tiktoken: token 256") == 0);
  std::vector<std::string> many;
  for (int i = 0; i < 100; ++i) many.push_back("token " + std::to_string(i));
  const auto small = make_named_tokenizer(
      rank_file(many), {"tiny", split_pattern::cl100k, {{.content = "<s>", .id = 300, .special = true}}});
  REQUIRE_FALSE(small);
  CHECK(small.error().detail.find("more ranks") != std::string::npos);
}

TEST_CASE("slices of any size give the same ids") {
  const auto tok = weir_tiny();
  std::string text;
  for (int i = 0; i < 3'000; ++i) text += i % 7 ? "some words, " : "中文字。 ";
  text += std::string(60'000, 'a') + " b" + std::string(30'000, ' ') + "c.";
  const auto whole = encoded(*tok, text);
  for (const std::size_t slice : {1UL, 100UL, 30'000UL}) {
    text_state state;
    ids sliced;
    for (std::string_view rest = text; !rest.empty();) {
      const std::size_t bytes = tok->safe_cut(rest, slice);
      tok->encode_slice(rest.substr(0, bytes), state, sliced);
      rest.remove_prefix(bytes);
    }
    CHECK(sliced == whole);
  }
}

TEST_CASE("missing files are named") {
  const auto tok = tokenizer::load(WEIR_SOURCE_DIR "/configs");
  REQUIRE_FALSE(tok);
  CHECK(tok.error().code == errc::io);
  CHECK(tok.error().detail.find("tiktoken.model") != std::string::npos);
}

}  // namespace
}  // namespace weir::engine::text
