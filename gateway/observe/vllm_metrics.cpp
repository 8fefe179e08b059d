#include "gateway/observe/vllm_metrics.hpp"

#include <string>
#include <utility>

#include "gateway/observe/metric_family.hpp"

namespace weir::gateway::observe {

namespace {

using label_list = std::vector<prometheus::ClientMetric::Label>;

double used_share(const engine::engine_stats& s) {
  if (s.kv_pages_total == 0) return 0;
  const auto used = s.kv_pages_used + std::int64_t{s.state_pages} * s.state_slots_used;
  return static_cast<double>(used) / static_cast<double>(s.kv_pages_total);
}

}  // namespace

std::vector<prometheus::MetricFamily> vllm_families(std::string_view model, const engine::engine_stats& stats,
                                                    std::int32_t page_tokens) {
  const label_list of{{"model_name", std::string(model)}, {"engine", "0"}};
  const auto gauge = [&](const char* name, const char* help, double value) {
    return family(name, help, prometheus::MetricType::Gauge, value, of);
  };
  const auto counter = [&](const char* name, const char* help, std::uint64_t value) {
    return family(name, help, prometheus::MetricType::Counter, static_cast<double>(value), of);
  };
  const auto hits =
      stats.cached_prompt_end + stats.cached_junction + stats.cached_hint + stats.cached_interval;
  const auto prompts = stats.prompt_tokens + hits;
  label_list sizes = of;
  sizes.push_back({"block_size", std::to_string(page_tokens)});
  sizes.push_back({"num_gpu_blocks", std::to_string(stats.kv_pages_total)});
  sizes.push_back({"enable_prefix_caching", "True"});
  return {
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
}

}  // namespace weir::gateway::observe
