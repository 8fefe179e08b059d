#include "loadtest/sequence_check.hpp"

#include <catch2/catch.hpp>
#include <vector>

namespace weir::loadtest {
namespace {

TEST_CASE("numbered tokens are checked for loss and order") {
  using texts = std::vector<const char*>;
  const auto [name, events, lost, reordered] = GENERATE(table<const char*, texts, int, int>({
      {"complete", {" tok0", " tok1....", " tok2"}, 0, 0},
      {"two in one event", {" tok0.. tok1", " tok2"}, 0, 0},
      {"one lost", {" tok0", " tok2"}, 1, 0},
      {"the last lost", {" tok0", " tok1"}, 1, 0},
      {"all lost", {}, 3, 0},
      {"swapped", {" tok1", " tok0", " tok2"}, 0, 1},
      {"twice", {" tok0", " tok0", " tok1", " tok2"}, 0, 1},
      {"cut", {" tok0", " to", " tok2"}, 2, 0},
      {"no number", {" tok0", " tok", " tok1", " tok2"}, 1, 0},
  }));
  sequence_check check;
  for (const auto* event : events) check.take(event);
  INFO(name);
  CHECK(check.lost(3) == lost);
  CHECK(check.reordered() == reordered);
}

}  // namespace
}  // namespace weir::loadtest
