#include "engine/text/safe_cut.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <tuple>

#include "engine/text/bpe_tokenizer.hpp"
#include "tests/engine/text/support.hpp"

namespace weir::engine::text {
namespace {

std::string random_atoms(std::mt19937& random, std::size_t count) {
  static const std::string k_atoms[] = {
      "a",    "Z",        "word", "HTTP", "1",      "234",  " ",        "  ",      "\n", "\r\n", "\t",
      ".",    ",",        "'",    "'s",   "'LL",    "\"",   "<|",       "中",      "文", "，",   "。",
      "々",   "〇",       "⺀",   "ª",    "ʰ",      "é",    "\xCC\x81", "א",       "한", "か",   "😀",
      "\xFF", "\xE4\xB8", "\xC3", "½",    "\u3000", "\x1C", "\u0085",   "'\u017F", "(x", "//",   "Ⅷ"};
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += k_atoms[random() % std::size(k_atoms)];
  return out;
}

std::shared_ptr<const tokenizer> tiny_with(split_pattern pattern, bool nfc) {
  const auto tiny = weir_tiny();
  std::vector<std::string> tokens;
  for (std::int32_t id = 0; !tiny->is_special(id); ++id) tokens.emplace_back(tiny->token_bytes(id));
  auto model = bpe_model::of_ranks(tokens);
  REQUIRE(model);
  return make_bpe_tokenizer({.model = std::move(*model), .pattern = pattern, .added = {}, .nfc = nfc});
}

void check_cuts(const tokenizer& tok, std::mt19937& random) {
  int cuts = 0;
  for (int round = 0; round < 1'000; ++round) {
    const std::string text = random_atoms(random, 12);
    const auto whole = encoded(tok, text);
    for (std::size_t at = 1; at < text.size(); ++at) {
      if (tok.safe_cut(text, at) != at) continue;
      ++cuts;
      auto ids = encoded(tok, text.substr(0, at));
      for (const auto id : encoded(tok, text.substr(at))) ids.push_back(id);
      INFO(text << " cut at " << at);
      CHECK(ids == whole);
    }
  }
  CHECK(cuts > 1'500);
}

TEST_CASE("what stands on one side of a safe cut does not change the ids of the other") {
  constexpr std::uint32_t k_seed = 17;
  INFO("seed " << k_seed);
  std::mt19937 random(k_seed);
  check_cuts(*weir_tiny(), random);
  for (const auto pattern : {split_pattern::kimi, split_pattern::o200k, split_pattern::cl100k,
                             split_pattern::qwen2, split_pattern::gpt2, split_pattern::deepseek_v3}) {
    INFO("pattern " << static_cast<int>(pattern));
    check_cuts(*tiny_with(pattern, false), random);
    check_cuts(*tiny_with(pattern, true), random);
  }
}

TEST_CASE("where a text may be cut") {
  const unicode_classes classes;
  const std::tuple<std::string, std::size_t, std::size_t> rows[] = {
      {"ab cd", 0, 2},       {"ab cd", 2, 2},   {"ab cd", 3, 5},    {"ab", 0, 2},     {"", 0, 0},
      {"a's b", 0, 3},       {"1.5", 0, 1},     {"  . !", 0, 5},    {"中文，", 0, 6}, {"中文，", 4, 6},
      {"a\xCC\x81 b", 0, 5}, {"a\xFF b", 0, 4}, {"中\xE4 b", 0, 6}, {"é-", 0, 2}};
  for (const auto& [text, from, expected] : rows) {
    INFO(text << " from " << from);
    CHECK(find_safe_cut(classes, text, from) == expected);
  }
}

}  // namespace
}  // namespace weir::engine::text
