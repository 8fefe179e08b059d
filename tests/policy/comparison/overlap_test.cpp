#include "policy/comparison/overlap.hpp"

#include <catch2/catch.hpp>

#include "policy/comparison/sampling.hpp"

namespace weir::policy::comparison {

TEST_CASE("what two texts share is counted in words") {
  struct row {
    const char* name;
    const char* a;
    const char* b;
    double overlap;
  };
  const row rows[] = {
      {"equal", "the answer is 42", "the answer is 42", 1},
      {"order does not count", "a b c", "c a b", 1},
      {"white space does not count", "a  b\n\tc", "a b c", 1},
      {"both empty", "", " \n", 1},
      {"one empty", "", "a", 0},
      {"nothing in common", "a b", "c d", 0},
      {"one of three words each", "a b c", "a d e", 2.0 / 6},
      {"twice here, once there", "a a b", "a b", 4.0 / 5},
      {"case counts", "Yes", "yes", 0},
      {"punctuation stands alone", "yes.", "yes", 2.0 / 3},
      {"underscore and digits belong to words", "max_2", "max 2", 0},
      {"accented letters belong to words", "caf\xc3\xa9 noir", "caf\xc3\xa9", 2.0 / 3},
      {"a typographic quote stands alone", "\xe2\x80\x9cz\xe2\x80\x9d", "z", 0.5},
      {"each ideograph is a word", "\xe4\xbd\xa0\xe5\xa5\xbd", "\xe5\xa5\xbd", 2.0 / 3},
      {"a word ends where an ideograph begins", "a\xe5\xa5\xbd", "a", 2.0 / 3},
      {"an emoji is a word", "\xf0\x9f\x98\x80\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80", 2.0 / 3},
      {"a character that is cut off", "\xe5\xa5", "\xe5\xa5", 1},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    CHECK(word_overlap(r.a, r.b) == Approx(r.overlap));
    CHECK(word_overlap(r.b, r.a) == Approx(r.overlap));
  }
}

TEST_CASE("a request is sampled by its identifier and the seed alone") {
  int taken = 0;
  int differs = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto id = "req-" + std::to_string(i);
    const bool once = is_sampled(id, 7, 0.05);
    CHECK(once == is_sampled(id, 7, 0.05));
    if (once) CHECK(is_sampled(id, 7, 0.5));  // a larger share takes those of a smaller one
    taken += once ? 1 : 0;
    differs += once != is_sampled(id, 8, 0.05) ? 1 : 0;
    CHECK_FALSE(is_sampled(id, 7, 0));
    CHECK(is_sampled(id, 7, 1));
  }
  CHECK(taken > 850);  // of 1000 expected, five standard deviations (31) on each side
  CHECK(taken < 1150);
  CHECK(differs > 1000);
}

}  // namespace weir::policy::comparison
