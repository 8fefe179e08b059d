#include "engine/sample/least_length.hpp"

#include <array>
#include <catch2/catch.hpp>

#include "engine/sample/guide.hpp"

namespace weir::engine::sample {
namespace {

TEST_CASE("no end comes before the least length, and every token may") {
  constexpr std::int32_t k_vocabulary = 130;
  const std::array<std::int32_t, 2> ends{7, 129};
  guide followed(least_length(3, k_vocabulary));
  for (int count = 0; count < 6; ++count) {
    INFO(count << " tokens");
    REQUIRE(followed.prepare(ends));
    const token_mask& mask = *followed.mask();
    for (std::int32_t token = 0; token < 192; ++token) {
      const bool is_end = token == 7 || token == 129;
      CHECK(contains(mask, token) == (token < k_vocabulary && (!is_end || count >= 3)));
    }
    CHECK_FALSE(followed.must_end());
    CHECK(followed.accept(5));
  }
}

TEST_CASE("sequences of one constraint count apart") {
  const auto shared = least_length(1, 8);
  guide first(shared);
  guide second(shared);
  CHECK(first.accept(1));
  const std::array<std::int32_t, 1> ends{2};
  REQUIRE(first.prepare(ends));
  REQUIRE(second.prepare(ends));
  CHECK(contains(*first.mask(), 2));
  CHECK_FALSE(contains(*second.mask(), 2));
}

}  // namespace
}  // namespace weir::engine::sample
