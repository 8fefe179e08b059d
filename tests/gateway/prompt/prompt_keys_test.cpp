#include "gateway/prompt/prompt_keys.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <limits>
#include <random>

#include "engine/text/tokenizer.hpp"

namespace weir::gateway {
namespace {

using engine::text::prompt_segments;
using prefix_index::block_key;
using prefix_index::chain_keys;

const engine::text::tokenizer& tiny() {
  static const auto tok = engine::text::tokenizer::load(WEIR_SOURCE_DIR "/configs/models/weir-tiny");
  REQUIRE(tok);
  return **tok;
}

block_key test_root(std::string_view scope = "team-a") {
  static constexpr std::array<std::byte, 16> k_salt{std::byte{7}};
  return prefix_index::root_key({.salt = k_salt, .model = "m", .adapter = "", .scope = scope});
}

// A prompt as a test builds it: a special token or a text for each part.
struct part {
  std::int32_t special = -1;
  std::string text;
};
using prompt = std::vector<part>;

prompt_segments segments_of(const prompt& parts) {
  prompt_segments out;
  for (const auto& p : parts) p.special >= 0 ? out.special(p.special) : out.view(p.text);
  return out;
}

std::string random_text(std::mt19937& random, std::size_t bytes) {
  static const std::string k_atoms[] = {
      "the ",     "Weir's",     " routes", ". ",        "\n\n",        "  ",       "中文字",     "，",
      "かな",     "한국어",     " значит", "e\xCC\x81", "12345",       "'s",       "'",          "\xFF",
      "\xE4\xB8", "<|im_end|>", "😀",       "\t",        "(x_1)=>{",    "\xC2\xA0", "HTTPServer", "々",
      "\r\n",     "\x1C",       "ªA",      "'LL",       "\xE3\x80\x82"};
  std::string out;
  const bool plain = random() % 3 == 0;
  while (out.size() < bytes) {
    const auto& atom = k_atoms[random() % (plain ? 6 : std::size(k_atoms))];
    const std::size_t times = random() % 200 == 0 ? random() % 3000 : 1;
    for (std::size_t i = 0; i < times; ++i) out += atom;
  }
  return out;
}

prompt random_prompt(std::mt19937& random) {
  prompt out;
  for (std::size_t i = 0, parts = 1 + random() % 12; i < parts; ++i) {
    if (random() % 2) out.push_back({static_cast<std::int32_t>(2048 + random() % 10), {}});
    out.push_back({-1, random_text(random, random() % 8 == 0 ? random() % 60'000 : random() % 3'000)});
  }
  return out;
}

// Cuts, inserts and replacements anywhere, also within a character.
void edit(std::mt19937& random, prompt& p) {
  auto& text = p[random() % p.size()].text;
  const std::size_t at = random() % (text.size() + 1);
  switch (random() % 6) {
    case 0:
      text.resize(at);
      break;
    case 1:
      text.insert(at, random_text(random, random() % 50));
      break;
    case 2:
      text.erase(at, random() % 7);
      break;
    case 3:
      p.resize(1 + random() % p.size());
      break;
    case 4:
      p.push_back({2050, {}});
      break;
    default:
      p.push_back({-1, random_text(random, random() % 9'000)});
  }
}

void check_exact(const prompt_keys& got, const prompt_segments& segments, std::size_t unit) {
  const auto ids = encode_segments(tiny(), segments);
  CHECK(got.tokens == ids.size());
  CHECK(got.keys == chain_keys(test_root(), ids, unit));
}

TEST_CASE("keys are those of the whole prompt, whatever is remembered") {
  const std::size_t capacities[] = {0, 20'000, 200'000, 64ULL << 20};
  for (const std::size_t capacity : capacities) {
    const auto seed = static_cast<std::uint32_t>(capacity + 5);
    INFO("capacity " << capacity << ", seed " << seed);
    std::mt19937 random(seed);
    prompt_memory memory(capacity);
    std::size_t remembered = 0;
    for (int conversation = 0; conversation < 6; ++conversation) {
      prompt p = random_prompt(random);
      for (int turn = 0; turn < 8; ++turn) {
        const std::size_t unit = random() % 4 == 0 ? 16 : 64;
        const auto segments = segments_of(p);
        const auto got = key_prompt(&memory, tiny(), segments.list, test_root(), unit);
        check_exact(got, segments, unit);
        remembered += got.remembered_bytes;
        edit(random, p);
      }
    }
    CHECK(memory.bytes() <= capacity);
    CHECK((remembered > 0) == (capacity > 0));
  }
}

TEST_CASE("the published cuts fall as in the whole text") {
  std::string words, wide;
  for (int i = 0; i < 130'000; ++i) words += "abc ";
  for (int i = 0; i < 70'000; ++i) wide += i % 9 ? "é" : "-";
  prompt_memory memory;
  for (const auto& text : {words, std::string(60'000, 'a') + words, words + wide, wide}) {
    const prompt p{{2051, {}}, {-1, text}, {2050, {}}, {-1, wide}};
    const auto segments = segments_of(p);
    check_exact(key_prompt(&memory, tiny(), segments.list, test_root()), segments, 64);
    const auto again = key_prompt(&memory, tiny(), segments.list, test_root());
    check_exact(again, segments, 64);
    CHECK(again.remembered_bytes > again.tokenized_bytes);
  }
}

TEST_CASE("a known prompt and its next turn tokenize only their last chunk and what is new") {
  std::mt19937 random(3);
  prompt p{{2051, {}}};
  std::string text;
  while (text.size() < 400'000) text += "word " + std::to_string(random() % 1000) + ", ";
  p.push_back({-1, text});
  prompt_memory memory;
  auto segments = segments_of(p);
  CHECK(key_prompt(&memory, tiny(), segments.list, test_root()).remembered_bytes == 0);
  CHECK(key_prompt(&memory, tiny(), segments.list, test_root()).tokenized_bytes < k_memory_chunk_bytes);
  p.push_back({2050, {}});
  p.push_back({-1, std::string("one more question")});
  segments = segments_of(p);
  const auto next = key_prompt(&memory, tiny(), segments.list, test_root());
  check_exact(next, segments, 64);
  CHECK(next.tokenized_bytes < 2 * k_memory_chunk_bytes);
}

TEST_CASE("scopes and units share nothing") {
  std::string text;
  for (int i = 0; i < 9'000; ++i) text += "abc ";
  const prompt p{{-1, text}};
  const auto segments = segments_of(p);
  prompt_memory memory;
  key_prompt(&memory, tiny(), segments.list, test_root("team-a"));
  CHECK(key_prompt(&memory, tiny(), segments.list, test_root("team-b")).remembered_bytes == 0);
  CHECK(key_prompt(&memory, tiny(), segments.list, test_root("team-a"), 32).remembered_bytes == 0);
  CHECK(key_prompt(&memory, tiny(), segments.list, test_root("team-a")).remembered_bytes > 0);
}

TEST_CASE("where a text ends matters, what it is made of does not") {
  const prompt one{{-1, "abcd"}}, two{{-1, "ab"}, {-1, "cd"}};
  const auto joined = segments_of(one), apart = segments_of(two);
  const auto a = key_prompt(nullptr, tiny(), joined.list, test_root(), 1);
  const auto b = key_prompt(nullptr, tiny(), apart.list, test_root(), 1);
  CHECK(a.keys == chain_keys(test_root(), encode_segments(tiny(), joined), 1));
  CHECK(b.keys == chain_keys(test_root(), encode_segments(tiny(), apart), 1));
}

TEST_CASE("steps of any size give the same keys and stay near their size") {
  std::mt19937 random(9);
  prompt p = random_prompt(random);
  p.push_back({-1, random_text(random, 300'000)});
  const auto segments = segments_of(p);
  const auto whole = key_prompt(nullptr, tiny(), segments.list, test_root());
  for (const std::size_t bytes_max : {1UL, 5'000UL, 65'536UL}) {
    prompt_keyer keyer(nullptr, tiny(), segments.list, test_root());
    std::size_t steps = 1;
    while (!keyer.step(bytes_max)) ++steps;
    const auto got = keyer.take();
    CHECK(got.keys == whole.keys);
    CHECK(steps >= 300'000 / (bytes_max + 2 * k_memory_chunk_bytes + 4'000));
  }
  prompt_keyer nothing(nullptr, tiny(), {}, test_root());
  CHECK(nothing.step(1));
  CHECK(nothing.take().keys.empty());
}

TEST_CASE("keys end before text that cannot be cut") {
  std::string words;
  for (int i = 0; i < 5'000; ++i) words += "abc ";
  const prompt before{{2051, {}}, {-1, words}};
  prompt p = before;
  p.push_back({-1, std::string(2 * k_uncut_bytes_max, 'a')});
  p.push_back({-1, words});
  const auto segments = segments_of(p), known = segments_of(before);
  prompt_memory memory;
  for (int round = 0; round < 2; ++round) {
    const auto got = key_prompt(&memory, tiny(), segments.list, test_root());
    CHECK(got.cut_short);
    CHECK(got.tokens >= 2 * k_uncut_bytes_max / k_bytes_per_token_estimate);
    CHECK(got.tokenized_bytes <= words.size());
    const auto ids = encode_segments(tiny(), known);
    const auto keys = chain_keys(test_root(), ids);
    REQUIRE(got.keys.size() > keys.size() / 2);
    CHECK(std::equal(got.keys.begin(), got.keys.end(), keys.begin()));
  }
  p[2].text.resize(k_uncut_bytes_max - 1'000);
  const auto shorter = segments_of(p);
  check_exact(key_prompt(&memory, tiny(), shorter.list, test_root()), shorter, 64);
}

TEST_CASE("keys of text") {
  const std::string text(5'000, 'x');
  const auto got = key_text(test_root(), text);
  CHECK(got.how == keyed_how::text);
  CHECK(got.keys.size() == 4);
  CHECK(got.tokens == 1250);
  CHECK(got.unit_tokens == 256);
  const auto longer = key_text(test_root(), text + text);
  CHECK(std::equal(got.keys.begin(), got.keys.end(), longer.keys.begin()));
  CHECK(longer.keys.size() == 9);
  CHECK(key_text(test_root("b"), text).keys[0] != got.keys[0]);
  CHECK(key_text(test_root(), "").how == keyed_how::none);
}

TEST_CASE("canonical text keeps fields apart and beginnings alike") {
  using engine::text::chat_message;
  using engine::text::chat_prompt;
  const chat_message question{"user", "hi", {}, ""};
  const chat_message call{"assistant", "", {{"id", "f", "{}"}}, ""};
  const chat_message result{"tool", "3", {}, "id"};
  const std::vector<chat_prompt> prompts{{{question}, ""},
                                         {{question}, "[]"},
                                         {{{"user", "h", {}, ""}, {"user", "i", {}, ""}}, ""},
                                         {{{"userh", "i", {}, ""}}, ""},
                                         {{call}, ""},
                                         {{result}, ""}};
  std::vector<std::string> texts;
  for (const auto& p : prompts) texts.push_back(canonical_text(p));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) CHECK(texts[i] != texts[j]);
  }
  CHECK(canonical_text({{question, call, result}, ""}).starts_with(canonical_text({{question, call}, ""})));
}

}  // namespace
}  // namespace weir::gateway
