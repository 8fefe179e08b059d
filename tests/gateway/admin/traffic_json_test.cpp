#include "gateway/admin/traffic_json.hpp"

#include <catch2/catch.hpp>

namespace weir::gateway::admin {

TEST_CASE("traffic is read back as it was written") {
  ledger::traffic_summary seen{.since_s = 1'796'040'001,
                               .until_s = 1'796'047'200,
                               .requests_by_hour = {{498'900, 3}, {498'901, 4}},
                               .by_target = {}};
  seen.by_target[{0, "kimi", "a \"b\""}] = {.hosted = true,
                                            .requests = 7,
                                            .accepted = 6,
                                            .failed = 1,
                                            .retried = 2,
                                            .local_only = 3,
                                            .prompt_tokens = 700,
                                            .known_tokens = 600,
                                            .cached_tokens = 500,
                                            .output_tokens = 70,
                                            .cost = 1'500'000'001,
                                            .first_s = 1'796'040'001,
                                            .last_s = 1'796'047'100};
  const auto text = to_json(seen);
  CHECK(text.find(R"("cost_usd":1.500000001})") != std::string::npos);
  const auto read = traffic_from_json(text);
  REQUIRE(read);
  CHECK(read->since_s == seen.since_s);
  CHECK(read->until_s == seen.until_s);
  CHECK(read->requests_by_hour == seen.requests_by_hour);
  CHECK(read->by_target == seen.by_target);
}

TEST_CASE("what is no traffic is not taken for some") {
  CHECK(traffic_from_json(to_json({})));
  for (const char* text :
       {"", "[]", "{}", R"({"since_s":1,"until_s":2,"hours":[]})",
        R"({"since_s":-1,"until_s":2,"hours":[],"targets":[]})",
        R"({"since_s":1,"until_s":2,"hours":[{"start_s":0}],"targets":[]})",
        R"({"since_s":1,"until_s":2,"hours":[{"start_s":9223372036854775807,"requests":1}],"targets":[]})",
        R"({"since_s":1,"until_s":2,"hours":[],"targets":[{"model":"m","target":"t","hosted":false}]})",
        R"({"since_s":1,"until_s":1.5,"hours":[],"targets":[]})"}) {
    INFO(text);
    CHECK_FALSE(traffic_from_json(text));
  }
}

}  // namespace weir::gateway::admin
