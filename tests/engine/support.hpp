// The bundled model behind the engine's boundary, for tests: a sink that collects, and what they all ask for.
// One thread, the test's; the collector's values are to be read after the engine told it the end.
#pragma once

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "engine/engine.hpp"

namespace weir::tests {

inline const std::filesystem::path k_model =
    std::filesystem::path(WEIR_SOURCE_DIR) / "configs/models/weir-tiny";
constexpr std::int64_t k_slab_bytes = 5 * 20480;       // a state of float32 takes the place of five pages
constexpr auto k_patience = std::chrono::seconds(60);  // a hang fails the test instead of stopping the run

class collector final : public engine::event_sink {
 public:
  void on_started(std::int32_t cached_tokens) noexcept override {
    if (started_++ > 0 || !events_.empty()) ++after_finish_;
    cached_ = cached_tokens;
  }
  void on_token(const engine::token_event& event) noexcept override {
    if (finished_ > 0) ++after_finish_;
    events_.push_back(event);
    if (events_.size() == 1) first_.set_value();
  }
  void on_finished(engine::finish_reason reason) noexcept override {
    reason_ = reason;
    if (++finished_ == 1) done_.set_value();
  }

  void wait_first() { REQUIRE(first_.get_future().wait_for(k_patience) == std::future_status::ready); }
  engine::finish_reason wait() {
    REQUIRE(done_.get_future().wait_for(k_patience) == std::future_status::ready);
    return reason_;
  }
  // After the engine stopped.
  int finished() const { return finished_; }
  std::int32_t cached() const { return cached_; }  // -1: it did not start
  int after_finish() const { return after_finish_; }
  const std::vector<engine::token_event>& events() const { return events_; }
  std::vector<std::int32_t> tokens() const {
    std::vector<std::int32_t> out;
    for (const engine::token_event& event : events_) out.push_back(event.token);
    return out;
  }

 private:
  std::vector<engine::token_event> events_;
  engine::finish_reason reason_ = engine::finish_reason::failed;
  std::int32_t cached_ = -1;
  int started_ = 0;
  int finished_ = 0;
  int after_finish_ = 0;
  std::promise<void> first_;
  std::promise<void> done_;
};

inline std::unique_ptr<engine::engine> open_engine(engine::engine_config config = {}) {
  config.model_dir = k_model;
  auto opened = engine::engine::open(config);
  INFO((opened ? std::string() : opened.error().detail));
  REQUIRE(opened);
  return std::move(*opened);
}

inline engine::generate_request request_of(std::vector<std::int32_t> prompt, std::int32_t max_new) {
  engine::generate_request request;
  request.prompt = std::move(prompt);
  request.max_new_tokens = max_new;
  return request;
}

// Every byte of the pool has one use.
inline void check_accounts(const engine::engine_stats& stats) {
  const std::int64_t states = std::int64_t{stats.state_pages} * (stats.state_slots_used + stats.checkpoints);
  CHECK(states + stats.kv_pages_used + stats.kv_pages_cached + stats.kv_pages_free == stats.kv_pages_total);
  const std::int64_t remainder = stats.kv_bytes - stats.kv_pages_total * stats.page_bytes;
  CHECK(remainder >= 0);
  CHECK(remainder < stats.page_bytes * stats.state_pages);
}

inline void check_idle(const engine::engine& under_test) {
  const engine::engine_stats stats = under_test.stats();
  CHECK(stats.running == 0);
  CHECK(stats.kv_pages_used == 0);
  CHECK(stats.state_slots_used == 0);
  check_accounts(stats);
}

}  // namespace weir::tests
