#include "gateway/admin/key_body.hpp"

#include <catch2/catch.hpp>

#include "gateway/admin/key_json.hpp"
#include "gateway/admin/page.hpp"
#include "gateway/api/json.hpp"

namespace weir::gateway::admin {

namespace {

bool is_fox(std::string_view name) {
  return name == "fox";
}

auth::key_terms full_terms() {
  return {.models = {"fox"},
          .limits = {.requests_per_min = 1,
                     .tokens_per_min = 2,
                     .concurrent = 3,
                     .usd_per_day = 4,
                     .usd_per_month = 5},
          .residency = auth::residency::local_only,
          .priority = auth::priority_class::high,
          .sharing = auth::key_sharing::site,
          .shadow = true};
}

}  // namespace

TEST_CASE("a change touches what it names; null takes back to the default") {
  struct row {
    const char* body;
    void (*change)(auth::key_terms&);
  };
  const row rows[] = {
      {"{}", [](auth::key_terms&) {}},
      {R"({"models":[]})", [](auth::key_terms& t) { t.models.clear(); }},
      {R"({"models":null})", [](auth::key_terms& t) { t.models.clear(); }},
      {R"({"limits":{}})", [](auth::key_terms&) {}},
      {R"({"limits":null})", [](auth::key_terms& t) { t.limits = {}; }},
      {R"({"limits":{"requests_per_min":null}})", [](auth::key_terms& t) { t.limits.requests_per_min = 0; }},
      {R"({"limits":{"tokens_per_min":1000000000}})",
       [](auth::key_terms& t) { t.limits.tokens_per_min = 1'000'000'000; }},
      {R"({"limits":{"concurrent":9}})", [](auth::key_terms& t) { t.limits.concurrent = 9; }},
      {R"({"limits":{"usd_per_day":0.000000001}})", [](auth::key_terms& t) { t.limits.usd_per_day = 1; }},
      {R"({"limits":{"usd_per_month":12}})",
       [](auth::key_terms& t) { t.limits.usd_per_month = 12 * policy::limits::k_usd; }},
      {R"({"residency":null})", [](auth::key_terms& t) { t.residency = auth::residency::any; }},
      {R"({"priority":null})", [](auth::key_terms& t) { t.priority = auth::priority_class::normal; }},
      {R"({"priority":"batch"})", [](auth::key_terms& t) { t.priority = auth::priority_class::batch; }},
      {R"({"sharing":null})", [](auth::key_terms& t) { t.sharing = auth::key_sharing::as_configured; }},
      {R"({"shadow":null})", [](auth::key_terms& t) { t.shadow = false; }},
  };
  for (const auto& r : rows) {
    INFO(r.body);
    const auto change = read_terms_change(r.body, is_fox);
    REQUIRE(change);
    auto terms = full_terms();
    auto wanted = terms;
    r.change(wanted);
    change->apply(terms);
    CHECK(terms == wanted);
  }
}

TEST_CASE("a new key has a name, and defaults for all else") {
  const auto made = read_new_key(R"({"name":"a"})", is_fox);
  REQUIRE(made);
  auth::key_terms terms;
  made->terms.apply(terms);
  CHECK(made->tenant == "default");
  CHECK(terms == auth::key_terms{});
  CHECK_FALSE(read_new_key(R"({"tenant":"a"})", is_fox));
}

TEST_CASE("bodies that need no value may be empty") {
  CHECK(read_grace_s("") == 0);
  CHECK(read_grace_s("{}") == 0);
  CHECK(read_grace_s(R"({"grace_s":60})") == 60);
  CHECK_FALSE(read_grace_s("null"));
  CHECK(read_nothing(""));
  CHECK(read_nothing("{}"));
  CHECK_FALSE(read_nothing(R"({"a":1})"));
}

TEST_CASE("money is written exactly") {
  CHECK(usd_text(0) == "0");
  CHECK(usd_text(1) == "0.000000001");
  CHECK(usd_text(1'500'000'000) == "1.5");
  CHECK(usd_text(20'000'000'000) == "20");
  CHECK(usd_text(9'223'372'036'854'775'807) == "9223372036.854775807");
}

TEST_CASE("what is written of a key is JSON, without key or digest") {
  const auth::key_record record{
      .id = "key_1", .name = "a", .tenant = "t", .digest = {1, 2, 3}, .terms = full_terms()};
  const auto text = open_key_json(record, "admin", 0) + '}';
  const auto document = api::json_document::parse(text);
  REQUIRE(document);
  CHECK(text.find("digest") == std::string::npos);
  CHECK(text.find("010203") == std::string::npos);
  const auto back = read_terms_change(
      R"({"limits":{"requests_per_min":1,"tokens_per_min":2,"concurrent":3,"usd_per_day":0.000000004}})",
      is_fox);
  REQUIRE(back);
  CHECK(text.find(R"("usd_per_day":0.000000004)") != std::string::npos);
}

TEST_CASE("a page's query is strict, and a cursor leads back to its place") {
  const auto page = read_page("limit=7&cursor=" + to_cursor("bkey_1"));
  REQUIRE(page);
  CHECK(page->limit == 7);
  CHECK(page->after == "bkey_1");
  CHECK(read_page("")->limit == k_page_default);
  for (const char* query : {"limit=", "limit=0", "limit=-1", "limit=1001", "limit=7x", "limit", "cursor=",
                            "cursor=a", "cursor=zz", "x=1", "&", "limit=1&limit=1", "cursor=61&cursor=61"}) {
    INFO(query);
    CHECK_FALSE(read_page(query));
  }
}

}  // namespace weir::gateway::admin
