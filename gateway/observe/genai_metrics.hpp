// Requests in the names of OpenTelemetry's GenAI conventions v1.41, as dashboards know them: the one place
// that maps our terms to theirs. Labels come from fixed sets and configured names. Any thread.
#pragma once

#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>

namespace weir::gateway::observe {

struct genai_numbers {
  std::string_view endpoint;  // a route's label
  std::string_view provider;  // a provider_of(); empty: no target had it
  std::string_view model;     // a configured model
  int status = 0;
  double duration_s = 0;
  double first_token_s = -1;  // below 0: not known
  double per_token_s = -1;    // behind the first; likewise
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
};

// gen_ai.operation.name of a route; empty: it is none.
std::string_view operation_of(std::string_view endpoint) noexcept;
// gen_ai.provider.name of a target's dialect, or of the embedded engine.
std::string_view provider_of(std::string_view dialect) noexcept;

class genai_metrics final {
 public:
  explicit genai_metrics(prometheus::Registry& registry);

  void observe(const genai_numbers& n);

 private:
  struct series {
    prometheus::Histogram* duration;
    prometheus::Histogram* first_token;
    prometheus::Histogram* per_token;
    prometheus::Histogram* input_tokens;
    prometheus::Histogram* output_tokens;
  };
  using key = std::tuple<std::string, std::string, std::string, int>;
  using key_view = std::tuple<std::string_view, std::string_view, std::string_view, int>;
  struct less {
    using is_transparent = void;
    static key_view view(const key& k) {
      return {std::get<0>(k), std::get<1>(k), std::get<2>(k), std::get<3>(k)};
    }
    static key_view view(const key_view& k) { return k; }
    bool operator()(const auto& a, const auto& b) const { return view(a) < view(b); }
  };
  const series& series_of(const key_view& of);

  prometheus::Family<prometheus::Histogram>& tokens_;
  prometheus::Family<prometheus::Histogram>& duration_;
  prometheus::Family<prometheus::Histogram>& first_token_;
  prometheus::Family<prometheus::Histogram>& per_token_;
  std::mutex mutex_;
  std::map<key, series, less> series_;  // under mutex_; entries stay
};

}  // namespace weir::gateway::observe
