#include "gateway/shared/sync_codec.hpp"

#include <catch2/catch.hpp>

namespace weir::gateway::shared {
namespace {

using kind = store_value::kind;

store_value number(std::int64_t n) {
  return {.is = kind::integer, .integer = n};
}

store_value text(std::string t) {
  return {.is = kind::text, .text = std::move(t)};
}

store_value list(std::vector<store_value> values) {
  return {.is = kind::list, .list = std::move(values)};
}

store_value grant() {
  return list({number(1), number(1'796'016'150'605'581), number(0), number(7), number(99), number(5),
               number(8), number(98), number(6), number(3), number(-1), text("500"), text("900"),
               list({text("a"), text("500"), text("b"), text("400")}), text("0"), text("0"), list({})});
}

const sync_context k_who{
    .prefix = "p:", .gateway = "gw", .epoch = "e", .session = "4", .lease_ms = 2000, .grace_ms = 1000};

TEST_CASE("an order as arguments: numbers stand where the script reads them") {
  key_order order{.key = "k"};
  order.limits = {
      .requests_per_min = 60, .tokens_per_min = 2'000'000'000, .concurrent = 9, .usd_per_day = 77};
  order.requests = {.need = 1, .want = 2, .owed = 3, .refunds = {{4, 5, 0}, {6, 7, 0}}};
  order.slots = {.running = 11, .want = 12};
  order.day = {.label = "2026-11-30",
               .limit = 77,
               .claim = {.hold = 21, .need = 22, .want = 23, .known = 24},
               .seeds = "x=1,"};
  const auto args = sync_command(k_who, order, "EVALSHA", "digest");
  const std::vector<std::string> wanted{
      "EVALSHA",    "digest", "5",  "p:site", "p:r:k",    "p:c:k", "p:m:k:2026-11-30",
      "p:m:k",      "gw",     "e",  "4",      "2000",     "1000",  //
      "60",         "1",      "2",  "3",      "4:5,6:7,",          // from 6
      "1000000000", "0",      "0",  "0",      "",                  // from 11
      "9",          "11",     "12",                                // from 16
      "77",         "21",     "22", "23",     "24",       "x=1,",  // from 19
      "0",          "-1",     "0",  "0",      "0",        "",      // from 25
  };
  CHECK(args == wanted);
}

TEST_CASE("a reply as a grant") {
  const auto got = read_grant(grant());
  REQUIRE(got.has_value());
  CHECK(got->requests.units == 7);
  CHECK(got->requests.until == 99);
  CHECK(got->requests.ahead_ns == 5'000);
  CHECK(got->tokens.units == 8);
  CHECK(got->slots == 3);
  CHECK(got->slots_free == -1);
  CHECK(got->day.claim == 500);
  CHECK(got->day.total == 900);
  CHECK(got->day.claims == "a=500,b=400,");
  CHECK(got->month.claims.empty());
}

TEST_CASE("replies that grant nothing") {
  using failure = sync_failure::kind;
  struct row {
    const char* name;
    store_value reply;
    failure why;
  };
  auto short_one = grant();
  short_one.list.pop_back();
  auto negative = grant();
  negative.list[3] = number(-7);
  auto no_number = grant();
  no_number.list[11] = text("12x");
  auto beyond = grant();
  beyond.list[11] = text("99999999999999999999");
  const row rows[] = {
      {"old session", list({number(0)}), failure::stale},
      {"claim missing", list({number(2)}), failure::lost},
      {"error", {.is = kind::error, .text = "READONLY"}, failure::refused},
      {"nothing", {}, failure::nonsense},
      {"empty", list({}), failure::nonsense},
      {"unknown status", list({number(9)}), failure::nonsense},
      {"short", short_one, failure::nonsense},
      {"negative", negative, failure::nonsense},
      {"no number", no_number, failure::nonsense},
      {"beyond int64", beyond, failure::nonsense},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    const auto got = read_grant(r.reply);
    REQUIRE_FALSE(got.has_value());
    CHECK(got.error().why == r.why);
  }
}

}  // namespace
}  // namespace weir::gateway::shared
