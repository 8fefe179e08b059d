#include "gateway/upstream/engine_members.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/engine.hpp"

namespace weir::gateway::upstream {
namespace {

TEST_CASE("the engine hears of scope and hints") {
  const std::vector<api::body_member> members{
      {"other", "1"}, {"cache_salt", "\"00ff\""}, {"weir_checkpoint_at", "[64,1024]"}};
  const auto out = read_engine_members(members);
  CHECK(out.scope == "00ff");
  CHECK(out.checkpoint_at == std::vector<std::int32_t>{64, 1024});

  const auto none = read_engine_members({});
  CHECK_FALSE(none.scope);
  CHECK(none.checkpoint_at.empty());

  const std::vector<api::body_member> shared{{"cache_salt", "\"\""}, {"weir_checkpoint_at", "[]"}};
  CHECK(read_engine_members(shared).scope == "");
  CHECK(read_engine_members(shared).checkpoint_at.empty());
}

TEST_CASE("as many hints as the engine takes, none out of range") {
  std::string list = "[99999999999";
  for (int i = 1; i <= 100; ++i) list += "," + std::to_string(i * 64);
  const std::vector<api::body_member> members{{"weir_checkpoint_at", list + "]"}};
  const auto out = read_engine_members(members);
  CHECK(out.checkpoint_at.size() == engine::k_checkpoint_hints_max);
  for (const auto at : out.checkpoint_at) CHECK(at <= 6400);
}

TEST_CASE("a client's hints come behind the gateway's, as far as there is room") {
  const engine_members terms{.scope = {}, .checkpoint_at = {640, 64}};
  CHECK(hints_of(terms, std::vector<std::int32_t>{7}) == std::vector<std::int32_t>{640, 64, 7});
  const auto full = hints_of(terms, std::vector<std::int32_t>(engine::k_checkpoint_hints_max, 9));
  CHECK(full.size() == engine::k_checkpoint_hints_max);
  CHECK(full[1] == 64);
  CHECK(full.back() == 9);
}

TEST_CASE("an answer's form binds it, and else its least length") {
  constexpr std::int32_t k_vocabulary = 100;
  CHECK(bound_of({}, nullptr, k_vocabulary) == nullptr);
  api::generation_options least;
  least.min_tokens = 2;
  api::generation_options endless;
  endless.ignore_eos = true;
  for (const auto* options : {&least, &endless}) {
    const auto bound = bound_of(*options, nullptr, k_vocabulary);
    REQUIRE(bound);
    CHECK(bound_of(*options, bound, k_vocabulary) == bound);  // as any other form
    const auto matcher = bound->start();
    for (int i = 0; i < 1000; ++i) {
      CHECK(matcher->is_complete() == (options == &least && i >= 2));
      CHECK(matcher->accept(1));
    }
    CHECK(matcher->is_complete() == (options == &least));
  }
}

}  // namespace
}  // namespace weir::gateway::upstream
