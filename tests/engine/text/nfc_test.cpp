#include "engine/text/nfc.hpp"

#include <catch2/catch.hpp>
#include <string>

namespace weir::engine::text {
namespace {

TEST_CASE("normalization form C") {
  const nfc_normalizer nfc;
  struct row {
    const char* name;
    std::string text, expected;
    bool plain;
  };
  const row rows[] = {{"ASCII", "plain text", "plain text", true},
                      {"composed already", "é中각", "é中각", true},
                      {"a letter and its mark", "e\u0301", "é", false},
                      {"two marks in canonical order", "e\u0323\u0302", "ệ", false},
                      {"two marks in the other order", "e\u0302\u0323", "ệ", false},
                      {"equal classes keep their order", "e\u0301\u0302", "é\u0302", false},
                      {"a mark blocked by an equal class", "a\u0315\u0300\u0301", "à\u0301\u0315", false},
                      {"a mark between starter and mark", "a\u0328\u0301", "ą\u0301", false},
                      {"Hangul", "\u1112\u1161\u11AB\u1100\u1173\u11AF", "한글", false},
                      {"Hangul, a trailing consonant alone", "가\u11A8", "각", false},
                      {"a singleton", "\u212B\u2126", "ÅΩ", false},
                      {"excluded from composition", "\u0958", "\u0915\u093C", false},
                      {"compatibility ideographs", "\uF900", "豈", false},
                      {"a mark at the beginning", "\u0301e", "\u0301e", false},
                      {"a starter blocks", "e\u200D\u0301", "e\u200D\u0301", false},
                      {"nothing", "", "", true}};
  for (const auto& r : rows) {
    INFO(r.name);
    CHECK(nfc.is_plain(r.text) == r.plain);
    CHECK(nfc.normalized(r.text) == r.expected);
    CHECK(nfc.normalized(r.expected) == r.expected);
  }
}

}  // namespace
}  // namespace weir::engine::text
