#include "engine/text/printable.hpp"

#include <catch2/catch.hpp>

#include <random>

#include "engine/text/utf8.hpp"

namespace weir::engine::text {
namespace {

struct row {
  const char* name;
  std::string text;
  std::string shown;
};

TEST_CASE("a text from outside is shown without control characters, as valid UTF-8") {
  const std::string r(k_replacement);
  const row rows[] = {
      {"nothing", "", ""},
      {"ASCII", "plain ~!\"\\", "plain ~!\"\\"},
      {"letters of all lengths", "\xC3\xA9\xE4\xBD\xA0\xF0\x9F\x8E\x89",
       "\xC3\xA9\xE4\xBD\xA0\xF0\x9F\x8E\x89"},
      {"an escape sequence", "a\x1b[31mb", "a" + r + "[31mb"},
      {"lines", "a\r\nb\tc", "a" + r + r + "b" + r + "c"},
      {"a zero byte", std::string("a\0b", 3), "a" + r + "b"},
      {"DEL and C1",
       "\x7f\xC2\x9B"
       "1m",
       r + r + "1m"},
      {"a separator of lines", "\xE2\x80\xA8", r},
      {"an override of the direction",
       "\xE2\x80\xAE"
       "fdp",
       r + "fdp"},
      {"a stray byte", "a\xFFz", "a" + r + "z"},
      {"a cut character", "a\xE4\xBD", "a" + r},
  };
  for (const auto& [name, text, shown] : rows) {
    INFO(name);
    CHECK(printable(text) == shown);
    CHECK(is_printable(text) == (text == shown));
  }
}

TEST_CASE("what is cut ends with a whole character") {
  const std::string text = "ab\xE4\xBD\xA0\xF0\x9F\x8E\x89";
  const std::size_t sizes[] = {0, 1, 2, 2, 2, 5, 5, 5, 5, 9, 9};
  for (std::size_t most = 0; most < std::size(sizes); ++most) {
    CHECK(printable(text, most) == text.substr(0, sizes[most]));
  }
  CHECK(printable("ab\x1b", 4) == "ab");
}

TEST_CASE("any bytes become printable") {
  const unsigned seed = 20251130;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 40, '\0');
    for (auto& c : bytes) c = static_cast<char>(random());
    const auto most = random() % 60;
    const auto shown = printable(bytes, most);
    REQUIRE(is_printable(shown));
    REQUIRE(shown.size() <= most);
  }
}

}  // namespace
}  // namespace weir::engine::text
