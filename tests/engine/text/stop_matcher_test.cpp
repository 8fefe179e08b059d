#include "engine/text/stop_matcher.hpp"

#include <catch2/catch.hpp>
#include <random>

namespace weir::engine::text {
namespace {

struct row {
  const char* name;
  std::vector<std::string> stops;
  std::vector<std::string> pushes;
  std::vector<std::string> shown;
  std::string tail;
  bool stopped;
};

const row k_rows[] = {
    {"no stops", {}, {"ab", "c"}, {"ab", "c"}, "", false},
    {"in one push", {"END"}, {"one END two"}, {"one "}, "", true},
    {"across pushes", {"END"}, {"a E", "N", "D", "x"}, {"a ", "", "", ""}, "", true},
    {"held, then not", {"END"}, {"a E", "x"}, {"a ", "Ex"}, "", false},
    {"held to the end", {"END"}, {"EN"}, {""}, "EN", false},
    {"overlap with itself", {"aab"}, {"aa", "a", "b"}, {"", "a", ""}, "", true},
    {"long border", {"ababac"}, {"abab", "ab", "ac"}, {"", "ab", ""}, "", true},
    {"first complete wins", {"abcd", "bc"}, {"abcd"}, {"a"}, "", true},
    {"longest of those complete", {"c", "abc"}, {"xabc"}, {"x"}, "", true},
    {"longest tail is held", {"abx", "bcy"}, {"zab", "c"}, {"z", "a"}, "bc", false},
    {"several bytes a character", {"é"}, {"x", "è", "é", "y"}, {"x", "è", "", ""}, "", true},
};

TEST_CASE("stop strings") {
  for (const auto& r : k_rows) {
    INFO(r.name);
    stop_matcher m(r.stops);
    for (std::size_t i = 0; i < r.pushes.size(); ++i) CHECK(m.push(r.pushes[i]) == r.shown[i]);
    CHECK(m.stopped() == r.stopped);
    CHECK(m.finish() == r.tail);
  }
}

// Against a plain search, however the text is divided.
TEST_CASE("the cut does not depend on the pushes") {
  constexpr std::uint32_t k_seed = 3;
  INFO("seed " << k_seed);
  std::mt19937 random(k_seed);
  const auto word = [&](std::size_t longest) {
    std::string w(1 + random() % longest, 'a');
    for (auto& c : w) c = static_cast<char>('a' + random() % 2);
    return w;
  };
  for (int round = 0; round < 3000; ++round) {
    const std::vector<std::string> stops{word(6), word(6), word(9)};
    const std::string text = word(40);
    std::size_t end = std::string::npos, cut = text.size();
    for (const auto& s : stops) {
      const std::size_t at = text.find(s);
      if (at == std::string::npos) continue;
      if (at + s.size() < end || (at + s.size() == end && at < cut)) {
        end = at + s.size();
        cut = at;
      }
    }
    stop_matcher m(stops);
    std::string shown;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t size = 1 + random() % 5;
      shown += m.push(text.substr(at, size));
      at += size;
    }
    shown += m.finish();
    CHECK(m.stopped() == (end != std::string::npos));
    CHECK(shown == text.substr(0, cut));
  }
}

}  // namespace
}  // namespace weir::engine::text
