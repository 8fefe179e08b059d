// What a message says, and every way in which it cannot be.
#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "engine/parallel/step_message.hpp"

namespace {

using namespace weir::engine;
using namespace weir::engine::parallel;
using words = std::vector<std::int32_t>;

constexpr step_limits k_limits{.vocab_size = 100,
                               .slab_count = 5,
                               .slab_pages = 3,
                               .page_tokens = 4,
                               .context_tokens = 40,
                               .rows_max = 20,
                               .sequences_max = 4};

result<step_message> read(const words& numbers) {
  return read_message(std::as_bytes(std::span(numbers)), k_limits);
}

// One copy of a state, a sequence of three tokens from position 6 in three pages, one row with logits.
const words k_step{0, 1, 0, 4, 2, 3, 1, 1, 6, 3, 10, 99, 0, 14, 0, 7, 1, 2};

words changed(std::size_t at, std::int32_t to) {
  words out = k_step;
  out[at] = to;
  return out;
}

}  // namespace

TEST_CASE("a step arrives as it was sent", "[step_message]") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    runner::batch work;
    std::vector<kv::memory_op> copies;
    const auto pick = [&](std::int64_t below) {
      return static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(below));
    };
    for (std::int32_t i = pick(4); i > 0; --i) {
      const bool state = pick(2) == 0;
      const std::int32_t places = state ? 5 : 15;
      copies.push_back({state ? kv::memory_op::kind::copy_state : kv::memory_op::kind::copy_page,
                        pick(places), pick(places)});
    }
    work.reset(10);
    for (std::int32_t i = pick(5); i > 0; --i) {
      words tokens(static_cast<std::size_t>(1 + pick(5))), pages(10);
      for (auto& token : tokens) token = pick(100);
      for (auto& page : pages) page = pick(15);
      const auto count = static_cast<std::int32_t>(tokens.size());
      const std::int32_t position = pick(40 - count + 1);
      pages.resize(static_cast<std::size_t>((position + count - 1) / 4 + 1));
      work.append(tokens, position, pick(5), pages);
      if (pick(2) == 0) work.logit_rows.push_back(work.row_count() - 1);
    }
    const auto got = read_message(write_step(copies, work, 4), k_limits);
    INFO("round " << round << (got ? "" : ": " + got.error().detail));
    REQUIRE(got);
    CHECK(got->what == order::step);
    CHECK(got->copies == copies);
    CHECK(got->work.tokens == work.tokens);
    CHECK(got->work.row_sequence == work.row_sequence);
    CHECK(got->work.block_table == work.block_table);
    CHECK(got->work.table_stride == work.table_stride);
    CHECK(got->work.logit_rows == work.logit_rows);
    REQUIRE(got->work.sequences.size() == work.sequences.size());
    for (std::size_t i = 0; i < work.sequences.size(); ++i) {
      CHECK(std::memcmp(&got->work.sequences[i], &work.sequences[i], sizeof(work.sequences[i])) == 0);
    }
  }
  const auto norms = read_message(write_norms({}, 4), k_limits);
  REQUIRE(norms);
  CHECK(norms->what == order::norms);
  CHECK(norms->slot == 4);
  const auto stop = read_message(write_stop(), k_limits);
  REQUIRE(stop);
  CHECK(stop->what == order::stop);
}

TEST_CASE("a message that cannot be is refused, and says what is wrong", "[step_message]") {
  REQUIRE(read(k_step));
  struct bad {
    words message;
    const char* says;
  };
  const bad cases[] = {
      {{}, "order"},
      {changed(0, 3), "order: 3"},
      {changed(0, -1), "order: -1"},
      {changed(1, -1), "copies: -1"},
      {changed(1, 1 << 30), "copies"},
      {changed(2, 2), "kind of copy: 2"},
      {changed(3, 5), "copy from: 5"},
      {changed(4, -1), "copy to: -1"},
      {changed(5, 16), "width of the table: 16"},
      {changed(5, 2), "more than the table is wide"},
      {changed(6, -1), "sequences: -1"},
      {changed(6, 5), "sequences: 5"},
      {changed(7, 5), "slot: 5"},
      {changed(8, 40), "position: 40"},
      {changed(8, 38), "tokens: 3"},
      {changed(9, 0), "tokens: 0"},
      {changed(9, 21), "tokens: 21"},
      {changed(9, std::numeric_limits<std::int32_t>::max()), "tokens"},
      {changed(11, 100), "token: 100"},
      {changed(13, 15), "page: 15"},
      {changed(15, -7), "page: -7"},
      {changed(16, 4), "rows with logits: 4"},
      {changed(17, 3), "row with logits: 3"},
      {{0, 0, 3, 1, 1, 0, 2, 5, 5, 0, 2, 1, 1}, "row with logits: 1 is not from 2"},
      {{1, 0, 5}, "slot: 5"},
      {{1, 0}, "slot: is missing"},
      {{2, 0, 0}, "behind its end"},
  };
  for (const bad& one : cases) {
    const auto got = read(one.message);
    INFO(one.says);
    REQUIRE_FALSE(got);
    INFO(got.error().detail);
    CHECK(got.error().detail.find(one.says) != std::string::npos);
  }
  for (std::size_t size = 0; size < k_step.size(); ++size) {
    INFO("cut to " << size);
    CHECK_FALSE(read({k_step.begin(), k_step.begin() + static_cast<std::ptrdiff_t>(size)}));
  }
  std::vector<std::byte> odd(k_step.size() * 4 + 1);
  std::memcpy(odd.data(), k_step.data(), k_step.size() * 4);
  CHECK_FALSE(read_message(odd, k_limits));
}
