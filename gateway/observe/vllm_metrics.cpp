#include "gateway/observe/vllm_metrics.hpp"

#include <array>
#include <string>
#include <utility>

#include "gateway/observe/metric_family.hpp"

namespace weir::gateway::observe {

namespace {

double used_share(const engine::engine_stats& s) {
  if (s.kv_pages_total == 0) return 0;
  const auto used = s.kv_pages_used + std::int64_t{s.state_pages} * s.state_slots_used;
  return static_cast<double>(used) / static_cast<double>(s.kv_pages_total);
}

}  // namespace

std::vector<prometheus::MetricFamily> vllm_families(std::string_view model, const engine::engine_stats& stats,
                                                    const engine::monitor::engine_activity& activity,
                                                    std::int32_t page_tokens) {
  const metric_labels of{{"model_name", std::string(model)}, {"engine", "0"}};
  const auto gauge = [&](const char* name, const char* help, double value) {
    return family(name, help, prometheus::MetricType::Gauge, value, of);
  };
  const auto counter = [&](const char* name, const char* help, std::uint64_t value) {
    return family(name, help, prometheus::MetricType::Counter, static_cast<double>(value), of);
  };
  const auto hits =
      stats.cached_prompt_end + stats.cached_junction + stats.cached_hint + stats.cached_interval;
  const auto prompts = stats.prompt_tokens + hits;
  metric_labels sizes = of;
  sizes.push_back({"block_size", std::to_string(page_tokens)});
  sizes.push_back({"num_gpu_blocks", std::to_string(stats.kv_pages_total)});
  sizes.push_back({"enable_prefix_caching", "True"});
  std::vector<prometheus::MetricFamily> out = {
      gauge("vllm:num_requests_running", "Sequences running", stats.running),
      gauge("vllm:num_requests_waiting", "Sequences waiting for a place among them", stats.waiting),
      gauge("vllm:kv_cache_usage_perc", "Share of the pool that running sequences hold, 0 to 1",
            used_share(stats)),
      counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache", prompts),
      counter("vllm:prefix_cache_hits_total", "Prompt tokens found there", hits),
      counter("vllm:prompt_tokens_total", "Prompt tokens, computed or found", prompts),
      counter("vllm:generation_tokens_total", "Tokens generated", stats.generated_tokens),
      counter("vllm:num_preemptions_total", "Running sequences that had to give up their memory",
              stats.preemptions),
      family("vllm:cache_config_info", "1, labelled with the pool's size", prometheus::MetricType::Gauge, 1,
             std::move(sizes)),
  };
  const auto latency = [&](const char* name, const char* help, const engine::monitor::histogram& h) {
    auto& to = out.emplace_back();
    to.name = name;
    to.help = help;
    to.type = prometheus::MetricType::Histogram;
    add_histogram(to, of, h.bounds(), h.counts(), h.sum_s());
  };
  latency("vllm:time_to_first_token_seconds", "From a request's arrival to its first token",
          activity.first_token_s);
  latency("vllm:inter_token_latency_seconds", "Between tokens of a request", activity.token_gap_s);
  latency("vllm:time_per_output_token_seconds", "The same, under its earlier name", activity.token_gap_s);
  latency("vllm:e2e_request_latency_seconds", "From a request's arrival to its whole answer",
          activity.request_s);
  latency("vllm:request_queue_time_seconds", "From a request's arrival until it first ran", activity.queue_s);
  auto& ended = out.emplace_back();
  ended.name = "vllm:request_success_total";
  ended.help = "Requests, by how they ended";
  ended.type = prometheus::MetricType::Counter;
  static constexpr std::array k_reasons{"stop", "length", "abort", "error"};  // by finish_reason
  for (std::size_t i = 0; i < k_reasons.size(); ++i) {
    auto labels = of;
    labels.push_back({"finished_reason", k_reasons[i]});
    add(ended, std::move(labels), static_cast<double>(activity.ended[i]));
  }
  return out;
}

}  // namespace weir::gateway::observe
