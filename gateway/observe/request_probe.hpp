// Measures one request from its head to its end, then reports once: metrics and one access-log line as JSON.
// Never logs a key, a header or a body. One request, one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/http/exchange.hpp"
#include "gateway/observe/metrics.hpp"
#include "gateway/observe/traffic_meter.hpp"
#include "gateway/trace/request_trace.hpp"
#include "policy/score.hpp"

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
  // Before any other; `how` outlives the probe.
  void start_trace(const trace::tracer& how);
  trace::request_trace& trace() noexcept { return trace_; }
  void set_provider(std::string_view name) { provider_ = name; }  // a constant
  // All that the client sends is here; what is spent from now until a target has it is ours, but for
  // `waited_s`.
  void body_read();
  void target_starts(double waited_s);
  // Why it went where it went: constants and what was predicted.
  void set_decision(std::string_view evidence, double ttft_s) {
    evidence_ = evidence;
    predicted_ttft_s_ = ttft_s;
  }
  void set_attempts(int count) { attempts_ = count; }
  void set_hedged() { hedged_ = true; }              // a second target was asked beside the first
  void set_retry_denied() { retry_denied_ = true; }  // there was no budget for a further attempt
  void set_estimated() { estimated_ = true; }  // set aside by the prompt's bytes, for want of a tokenizer
  void set_cached(std::int64_t tokens) { cached_tokens_ = tokens; }  // -1: the target does not say
  void set_outcome(std::string_view code) { outcome_ = code; }       // an error code, a constant
  void set_detail(std::string_view message) { detail_ = message; }   // what the client was told
  void first_token();

  // From here on the request counts as traffic of its model, whoever answers it. The meter outlives the
  // probe.
  void set_traffic(traffic_meter& meter, bool local_only) {
    traffic_ = &meter;
    local_only_ = local_only;
  }
  // What its result must keep to, to count as accepted.
  void set_contract(const policy::latency_contract& contract) { contract_ = contract; }
  void set_hosted(bool is_hosted) { hosted_ = is_hosted; }
  void set_charge(std::int64_t usd_nano) { charge_ = usd_nano; }  // at the target's prices

 private:
  void count_traffic(int status, double duration_s) const;

  double seconds_since_start() const;
  double per_token_s(double duration_s) const;  // below 0: not known
  void end_trace(int status);

  metrics& metrics_;
  const http::exchange& exchange_;
  report report_;
  std::chrono::steady_clock::time_point start_;
  trace::request_trace trace_;
  std::string_view provider_;
  std::string_view evidence_;
  double predicted_ttft_s_ = -1;
  double body_read_s_ = 0;  // since the start
  double overhead_s_ = -1;  // below 0: no target got it
  double waited_s_ = 0;
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
  int attempts_ = 0;      // targets that were tried
  bool unpriced_ = false;
  bool estimated_ = false;
  bool hedged_ = false;
  bool retry_denied_ = false;
  traffic_meter* traffic_ = nullptr;  // null: no traffic
  bool local_only_ = false;
  policy::latency_contract contract_;
  bool hosted_ = false;
  std::int64_t charge_ = 0;
};

}  // namespace weir::gateway::observe
