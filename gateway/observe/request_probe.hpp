// Measures one request from its head to its end, then reports once: metrics and one access-log line as JSON.
// Never logs a key, a header or a body. One request, one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/http/exchange.hpp"
#include "gateway/observe/metrics.hpp"

namespace weir::gateway::observe {

class request_probe final {
 public:
  // What is reported at the end. A scrape of the metrics would only report itself, so the admin listener's
  // requests are silent.
  enum class report { nothing, metrics, metrics_and_line };

  // All references outlive the probe.
  request_probe(metrics& m, const http::exchange& ex, report what);
  ~request_probe();  // reports
  request_probe(const request_probe&) = delete;
  request_probe& operator=(const request_probe&) = delete;

  void set_endpoint(std::string_view label) { endpoint_ = label; }  // a constant
  void set_key(std::string name) { key_ = std::move(name); }
  void set_model(std::string name) { model_ = std::move(name); }  // a configured name
  void set_target(std::string name) { target_ = std::move(name); }
  const std::string& target() const noexcept { return target_; }  // the last that was tried
  void set_tokens(std::int64_t prompt, std::int64_t completion) {
    prompt_tokens_ = prompt;
    completion_tokens_ = completion;
  }
  void set_predicted_reuse(std::int64_t tokens) { predicted_tokens_ = tokens; }
  void set_cost(double usd, bool unpriced) {
    cost_usd_ = usd;
    unpriced_ = unpriced;
  }
  void set_estimated() { estimated_ = true; }  // set aside by the prompt's bytes, for want of a tokenizer
  void set_cached(std::int64_t tokens) { cached_tokens_ = tokens; }  // -1: the target does not say
  void set_outcome(std::string_view code) { outcome_ = code; }       // an error code, a constant
  void set_detail(std::string_view message) { detail_ = message; }   // what the client was told
  void first_token();

 private:
  double seconds_since_start() const;

  metrics& metrics_;
  const http::exchange& exchange_;
  report report_;
  std::chrono::steady_clock::time_point start_;
  std::string_view endpoint_ = "none";
  std::string_view outcome_;
  std::string detail_;
  std::string key_;
  std::string model_ = "none";
  std::string target_;
  double first_token_s_ = -1;
  std::int64_t prompt_tokens_ = 0;
  std::int64_t completion_tokens_ = 0;
  std::int64_t predicted_tokens_ = 0;
  std::int64_t cached_tokens_ = -1;
  double cost_usd_ = -1;  // below 0: not counted
  bool unpriced_ = false;
  bool estimated_ = false;
};

}  // namespace weir::gateway::observe
