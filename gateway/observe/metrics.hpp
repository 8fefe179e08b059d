// Every metric family of the gateway, declared in one place, and its text exposition. Labels come only from
// configured sets and fixed enums, so a client cannot grow them. Any thread.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "gateway/errc.hpp"
#include "gateway/observe/genai_metrics.hpp"
#include "gateway/observe/route_counters.hpp"
#include "gateway/observe/shadow_counters.hpp"
#include "gateway/observe/shared_counters.hpp"
#include "gateway/observe/upstream_counters.hpp"

namespace weir::gateway::observe {

struct request_numbers {
  std::string_view endpoint;  // a route's label
  std::string_view model;     // a configured model, or "none"
  int status = 0;
  double duration_s = 0;
  double first_token_s = -1;  // below 0: no token
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::string_view provider;  // genai_metrics.hpp; empty: no target had it
  double per_token_s = -1;    // below 0: not known
  double overhead_s = -1;     // likewise
};

class metrics final {
 public:
  metrics();

  void request_started() {
    in_flight_->Increment();
    started_.fetch_add(1, std::memory_order_relaxed);
  }
  std::uint64_t requests_started() const noexcept { return started_.load(std::memory_order_relaxed); }
  double in_flight() const { return in_flight_->Value(); }
  void request_ended(const request_numbers& n);
  upstream_counters upstream(const std::string& target);
  scrape_counters scrapes(const std::string& target);
  // Of copies of a configured model. The first call makes the families.
  shadow_counters shadow(const std::string& model, const std::string& target);
  const route_counters& route() const noexcept { return route_; }
  // The first call makes the series: a gateway alone has none.
  shared_counters shared();
  void reload_done(bool ok);
  // A request that its key's limits refused.
  void limit_refused(errc code);
  void set_connections(double open) { connections_->Set(open); }
  // Of clients, since the start: over limits.connections, and for want of file descriptors.
  void set_refused(std::uint64_t over_limit, std::uint64_t no_descriptors);
  void set_body_bytes(double held) { body_bytes_->Set(held); }
  void set_reply_bytes(double held) { reply_bytes_->Set(held); }

  // Prometheus text format 0.0.4. `more`: families whose values are kept elsewhere.
  std::string text(std::vector<prometheus::MetricFamily> more = {}) const;

 private:
  // The series of one label set: finding them by label maps would cost more than the rest of a short request.
  struct request_series {
    prometheus::Counter* requests;
    prometheus::Histogram* duration;
    prometheus::Histogram* first_token;
    prometheus::Counter* prompt_tokens;
    prometheus::Counter* completion_tokens;
  };
  struct label_key {
    std::string endpoint;
    std::string model;
    int status;
  };
  struct label_view {
    std::string_view endpoint;
    std::string_view model;
    int status;
  };
  struct label_less {
    using is_transparent = void;
    static label_view view(const label_key& key) { return {key.endpoint, key.model, key.status}; }
    static label_view view(const label_view& key) { return key; }
    bool operator()(const auto& a, const auto& b) const {
      const label_view x = view(a);
      const label_view y = view(b);
      return std::tie(x.status, x.model, x.endpoint) < std::tie(y.status, y.model, y.endpoint);
    }
  };
  const request_series& series_of(const request_numbers& n);
  void add_route_counters();

  std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Family<prometheus::Counter>& requests_;
  prometheus::Family<prometheus::Counter>& tokens_;
  prometheus::Family<prometheus::Histogram>& duration_;
  prometheus::Family<prometheus::Histogram>& first_token_;
  prometheus::Family<prometheus::Counter>& reloads_;
  prometheus::Family<prometheus::Counter>& limit_refusals_;
  prometheus::Family<prometheus::Counter>& attempts_;
  prometheus::Family<prometheus::Counter>& upstream_connections_;
  prometheus::Family<prometheus::Counter>& retries_;
  prometheus::Family<prometheus::Counter>& scrapes_;
  prometheus::Family<prometheus::Gauge>& target_load_;
  genai_metrics genai_;
  prometheus::Histogram* overhead_;
  route_counters route_;
  std::atomic<std::uint64_t> started_ = 0;
  std::mutex series_mutex_;
  std::map<label_key, request_series, label_less> series_;  // under series_mutex_; entries stay
  prometheus::Gauge* in_flight_;
  prometheus::Gauge* connections_;
  prometheus::Counter* refused_over_limit_;
  prometheus::Counter* refused_no_descriptors_;
  prometheus::Gauge* body_bytes_;
  prometheus::Gauge* reply_bytes_;
};

}  // namespace weir::gateway::observe
