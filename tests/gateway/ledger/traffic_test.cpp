#include "gateway/ledger/traffic.hpp"

#include <limits>

#include "tests/gateway/ledger/support.hpp"

namespace weir::gateway::ledger {

namespace {

constexpr std::int64_t k_hour_s = 3600;
constexpr hour_number k_noon = k_noon_s / k_hour_s;

traffic_row row_of(std::string model, std::string target, std::int64_t requests,
                   std::int64_t at_s = k_noon_s) {
  return {.key = {.hour = 0, .model = std::move(model), .target = std::move(target)},
          .counts = {.requests = requests,
                     .accepted = requests,
                     .prompt_tokens = 100 * requests,
                     .first_s = at_s,
                     .last_s = at_s}};
}

}  // namespace

TEST_CASE("counts add up, by their hour, and stop at the largest number") {
  traffic_sum sum;
  auto change = sum.add({row_of("kimi", "a", 2), row_of("kimi", "a", 3), row_of("kimi", "b", 5)}, 10);
  REQUIRE(change.written.size() == 3);
  CHECK(change.written[1].counts.requests == 5);  // whole, not the difference
  auto largest = row_of("kimi", "a", 1);
  largest.counts.requests = std::numeric_limits<std::int64_t>::max();
  change = sum.add({largest}, 10);
  CHECK(change.written[0].counts.requests == std::numeric_limits<std::int64_t>::max());
  CHECK(sum.add({row_of("kimi", "a", 1)}, 11).written[0].counts.requests == 1);
  CHECK(sum.rows().size() == 3);
  CHECK(sum.add({row_of("", "a", 1)}, 11).written.empty());
}

TEST_CASE("what is older than a month goes, and the oldest where there is too much") {
  traffic_sum sum;
  sum.add({row_of("kimi", "a", 1)}, 10);
  sum.add({row_of("kimi", "a", 1)}, 11);
  const auto change = sum.add({row_of("kimi", "a", 1)}, 10 + k_traffic_hours_kept);
  REQUIRE(change.erased.size() == 1);
  CHECK(change.erased[0].hour == 10);
  std::vector<traffic_row> many;
  for (std::size_t i = 0; i < k_traffic_rows_max; ++i) many.push_back(row_of("m", std::to_string(i), 1));
  const auto full = sum.add(std::move(many), 11 + k_traffic_hours_kept - 1);
  CHECK(sum.rows().size() == k_traffic_rows_max);
  CHECK(full.erased.size() == 2);
}

TEST_CASE("a summary is of a model and of whole hours") {
  traffic_sum sum;
  sum.add({row_of("kimi", "a", 1, 9 * k_hour_s + 5)}, 9);
  sum.add({row_of("kimi", "a", 2, 10 * k_hour_s + 7), row_of("kimi", "b", 3, 10 * k_hour_s + 6)}, 10);
  sum.add({row_of("other", "a", 4, 11 * k_hour_s)}, 11);
  const auto all = summarize(sum.rows(), "", 0, 12 * k_hour_s);
  CHECK(all.since_s == 9 * k_hour_s + 5);
  CHECK(all.requests_by_hour == std::map<hour_number, std::int64_t>{{9, 1}, {10, 5}, {11, 4}});
  CHECK(all.by_target.size() == 3);
  const auto one = summarize(sum.rows(), "kimi", 10 * k_hour_s + 1800, 12 * k_hour_s);
  CHECK(one.since_s == 10 * k_hour_s + 6);
  CHECK(one.requests_by_hour == std::map<hour_number, std::int64_t>{{10, 5}});
  CHECK(one.by_target.at({0, "kimi", "b"}).requests == 3);
  CHECK(summarize(sum.rows(), "none", 0, 5).requests_by_hour.empty());
}

TEST_CASE("traffic survives a restart, and is read beside a gateway that has the ledger open") {
  const testing::temp_dir folder;
  hand_clock clock;
  {
    const auto book = open_good(settings_for(folder.path(), clock));
    REQUIRE(book->add_traffic({row_of("kimi", "a", 2)}));
    REQUIRE(book->add_traffic({row_of("kimi", "a", 3), row_of("kimi", "b", 1)}));
    CHECK(book->traffic("kimi", 0).by_target.at({0, "kimi", "a"}).requests == 5);  // at once
    outcome told;  // a later batch: what was added before it is on the disk
    REQUIRE(book->put(auth::tenant_record{.name = "acme", .weight = 1}, told.callback()));
    REQUIRE(told.wait());
    const auto beside = read_traffic(folder.path());
    REQUIRE(beside);
    CHECK(beside->at({k_noon, "kimi", "a"}).requests == 5);
    CHECK(beside->size() == 2);
  }
  clock.run(k_hour_s);
  const auto book = open_good(settings_for(folder.path(), clock));
  REQUIRE(book->add_traffic({row_of("kimi", "a", 7, k_noon_s + k_hour_s)}));
  const auto found = book->traffic("", 0);
  CHECK(found.requests_by_hour == std::map<hour_number, std::int64_t>{{k_noon, 6}, {k_noon + 1, 7}});
  CHECK(found.by_target.at({0, "kimi", "a"}).prompt_tokens == 1'200);
  CHECK(found.until_s == k_noon_s + k_hour_s);
}

TEST_CASE("a folder that is no ledger says so") {
  const testing::temp_dir folder;
  const auto read = read_traffic(folder.path() / "none");
  REQUIRE_FALSE(read);
  CHECK(read.error().find("none: is no ledger that can be read") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "none"));
}

}  // namespace weir::gateway::ledger
