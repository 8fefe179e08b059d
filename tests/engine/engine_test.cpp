#include "engine/engine.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <future>
#include <memory>
#include <vector>

namespace {

using namespace weir::engine;

class collector final : public event_sink {
 public:
  void on_token(const token_event& event) noexcept override { tokens.push_back(event.token); }
  void on_finished(finish_reason reason) noexcept override { done.set_value(reason); }

  std::vector<std::int32_t> tokens;
  std::promise<finish_reason> done;
};

}  // namespace

TEST_CASE("greedy generation", "[engine]") {
  engine_config config;
  config.model_dir = std::filesystem::path(WEIR_SOURCE_DIR) / "configs/models/weir-tiny";
  auto opened = engine::open(config);
  REQUIRE(opened);
  generate_request request;
  request.prompt = {2051, 279, 2065};
  request.max_new_tokens = 500;
  request.stop_tokens = {};
  auto sink = std::make_shared<collector>();
  REQUIRE((*opened)->submit(request, sink));
  CHECK(sink->done.get_future().get() == finish_reason::stop);
}
