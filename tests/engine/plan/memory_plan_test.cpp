// The plan's arithmetic against numbers worked out by hand from the published configurations.
#include "engine/plan/memory_plan.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <numeric>

#include "engine/model/mapped_file.hpp"
#include "engine/model/model_config.hpp"

namespace {

using namespace weir::engine;
using plan::envelope;

model::model_config read(const char* name) {
  const auto text = model::read_file(std::filesystem::path(WEIR_SOURCE_DIR) / "configs/models" / name,
                                     model::k_config_bytes_max);
  REQUIRE(text);
  const auto config = model::parse_model_config(*text);
  INFO((config ? std::string() : config.error().detail));
  REQUIRE(config);
  return *config;
}

}  // namespace

TEST_CASE("published models have their published sizes", "[plan]") {
  const auto linear = read("kimi-linear-48b-a3b.json");
  CHECK(plan::count_weights(linear).total() == 49'122'681'728);
  CHECK(plan::state_bytes(linear, {}) == 43'417'600);
  CHECK(plan::state_bytes(linear, {.state = 2}) == 22'446'080);
  CHECK(plan::token_bytes(linear, {}) == 8'064);

  const auto k3 = read("kimi-k3.json");
  // The file pads each KDA layer's 96 decays to 128.
  CHECK(plan::count_weights(k3).total() + 69 * 32 == 2'779'484'478'208);
  CHECK(plan::count_weights(k3).routed == 92LL * 896 * 33'030'144);
  CHECK(plan::state_bytes(k3, {}) == 449'372'160);
  CHECK(plan::state_bytes(k3, {.state = 2}) == 232'316'928);
  CHECK(plan::token_bytes(k3, {}) == 27'648);
  CHECK(plan::token_bytes(k3, {.latent = 1}) == 13'824);
  // 1,559.94 GB: the download of 1,560.86 GB less its vision tower.
  CHECK(plan::weight_bytes(k3) / 10'000'000 == 155'994);
}

TEST_CASE("the counted weights are the bundled checkpoint's", "[plan]") {
  const auto tiny = read("weir-tiny/config.json");
  const auto file = std::filesystem::path(WEIR_SOURCE_DIR) / "configs/models/weir-tiny/model.safetensors";
  const auto published = static_cast<std::int64_t>(std::filesystem::file_size(file));
  const std::int64_t counted = plan::weight_bytes(tiny);
  CHECK(counted <= published);
  CHECK(counted > published - published / 100);  // its header, and the few numbers kept in float32
}

TEST_CASE("six envelopes of K3 on eight GPUs add up to the byte", "[plan]") {
  const auto k3 = read("kimi-k3.json");
  plan::plan_request request;
  request.gpus = 8;
  request.memory_bytes = 288'000'000'000;
  request.runtime_bytes = 8'000'000'000;
  request.sequences = 16;
  request.context_tokens = 131'072;
  request.kept = 4;
  request.moving = 2;
  const auto made = plan::make_plan(k3, request);
  REQUIRE(made);
  const std::int64_t state = 56'171'520;
  const std::int64_t pages = 27'648LL * 131'072;
  CHECK(made->at(envelope::weights) == (plan::weight_bytes(k3) + 7) / 8);
  CHECK(made->at(envelope::runtime) == 8'000'000'000);
  CHECK(made->at(envelope::states) == 16 * state);
  CHECK(made->at(envelope::pages) == 16 * pages);
  CHECK(made->at(envelope::replication) == 4 * (state + pages));
  CHECK(made->at(envelope::transfer) == 2 * (state + pages));
  CHECK(made->sum == std::accumulate(made->bytes.begin(), made->bytes.end(), std::int64_t{0}));
  CHECK(made->fits());
  CHECK(made->binding == envelope::weights);
  // One more than the most does not fit, nor does one token more than the longest.
  request.sequences = made->sequences_max;
  CHECK(plan::make_plan(k3, request)->fits());
  ++request.sequences;
  const auto over = plan::make_plan(k3, request);
  CHECK_FALSE(over->fits());
  CHECK(over->binding == envelope::pages);
  request.kept = request.moving = 0;  // their size follows the context
  request.context_tokens = plan::make_plan(k3, request)->context_max;
  CHECK(plan::make_plan(k3, request)->fits());
  ++request.context_tokens;
  CHECK_FALSE(plan::make_plan(k3, request)->fits());
  request.context_tokens = 1'000;
  request.sequences = 2'000;
  CHECK(plan::make_plan(k3, request)->binding == envelope::states);
  request.gpus = 4;
  CHECK(plan::make_plan(k3, request)->binding == envelope::weights);
  CHECK(plan::make_plan(k3, request)->sequences_max == 0);
  CHECK(plan::sum_text(*over).find("weights 19") == 0);
}

TEST_CASE("numbers out of range are refused", "[plan]") {
  const auto tiny = read("weir-tiny/config.json");
  struct row {
    const char* name;
    void (*change)(plan::plan_request&);
  };
  const row rows[] = {
      {"no GPU", [](plan::plan_request& r) { r.gpus = 0; }},
      {"too many GPUs", [](plan::plan_request& r) { r.gpus = 4097; }},
      {"GPUs that do not share the heads", [](plan::plan_request& r) { r.gpus = 7; }},
      {"no memory", [](plan::plan_request& r) { r.memory_bytes = 0; }},
      {"memory past all sense", [](plan::plan_request& r) { r.memory_bytes = INT64_MAX; }},
      {"negative runtime", [](plan::plan_request& r) { r.runtime_bytes = -1; }},
      {"sequences", [](plan::plan_request& r) { r.sequences = INT64_MAX; }},
      {"kept", [](plan::plan_request& r) { r.kept = -1; }},
      {"moving", [](plan::plan_request& r) { r.moving = INT64_MAX; }},
      {"no context", [](plan::plan_request& r) { r.context_tokens = 0; }},
      {"more than the model's context", [](plan::plan_request& r) { r.context_tokens = 8193; }},
      {"format", [](plan::plan_request& r) { r.formats.latent = 0; }},
  };
  for (const row& r : rows) {
    INFO(r.name);
    plan::plan_request request{.memory_bytes = 1 << 30};
    REQUIRE(plan::make_plan(tiny, request));
    r.change(request);
    const auto made = plan::make_plan(tiny, request);
    REQUIRE_FALSE(made);
    CHECK(made.error().code == errc::bad_request);
  }
}
