#include "loadtest/mock/counters.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace weir::loadtest::mock {

namespace {

std::int64_t sum(const all_counters& all, counter counters::*member) {
  std::int64_t out = 0;
  for (const auto& one : all) out += ((*one).*member).value();
  return out;
}

struct row {
  const char* name;
  const char* type;
  const char* what;
  counter counters::*member;
};

constexpr row k_vllm_rows[] = {
    {"vllm:prefix_cache_queries_total", "counter", "Prompt tokens looked up.", &counters::cache_queries},
    {"vllm:prefix_cache_hits_total", "counter", "Prompt tokens found.", &counters::cache_hits},
    {"vllm:prompt_tokens_total", "counter", "Prompt tokens processed.", &counters::prompt_tokens},
    {"vllm:generation_tokens_total", "counter", "Tokens generated.", &counters::generation_tokens},
};

constexpr row k_sglang_rows[] = {
    {"sglang:prompt_tokens_total", "counter", "Prompt tokens processed.", &counters::prompt_tokens},
    {"sglang:generation_tokens_total", "counter", "Tokens generated.", &counters::generation_tokens},
};

constexpr row k_own_rows[] = {
    {"mock_requests_total", "counter", "Whole requests of any path.", &counters::requests},
    {"mock_malformed_requests_total", "counter", "Requests that break HTTP.", &counters::malformed},
    {"mock_aborted_total", "counter", "Clients gone before their answer was complete.", &counters::aborted},
    {"mock_faults_total", "counter", "Answers with a fault.", &counters::faults},
    {"mock_connections_open", "gauge", "Connections open.", &counters::connections_open},
    {"mock_connections_total", "counter", "Connections accepted.", &counters::connections},
};

// A mock without a replica behind it never lets a request wait.
struct load_now {
  std::int64_t running = 0;
  std::int64_t waiting = 0;
  std::int64_t used_tokens = 0;
  std::int64_t waiting_tokens = 0;
  std::int64_t waiting_uncached_tokens = 0;
  std::int64_t block_tokens = k_block_tokens;
  std::int64_t blocks = k_kv_blocks;

  std::int64_t capacity_tokens() const { return block_tokens * blocks; }
  double usage() const {
    return std::min(1.0, static_cast<double>(used_tokens) / static_cast<double>(capacity_tokens()));
  }
};

load_now load_of(const all_counters& all, const replica* behind) {
  load_now out;
  if (behind == nullptr) {
    out.running = sum(all, &counters::running);
    out.used_tokens = sum(all, &counters::tokens_in_use);
    return out;
  }
  const auto load = behind->load();
  const auto& cache = behind->options().cache;
  out.running = load.running;
  out.waiting = load.waiting;
  out.used_tokens = load.running_tokens;
  out.waiting_tokens = load.waiting_tokens;
  out.waiting_uncached_tokens = load.waiting_uncached_tokens;
  out.block_tokens = cache.page_tokens;
  out.blocks = cache.capacity_tokens / cache.page_tokens;
  return out;
}

class text_writer {
 public:
  explicit text_writer(std::string labels) : labels_(std::move(labels)) {}

  void head(const char* name, const char* type, const char* what) {
    out_ += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, what);
  }
  template <class Value>
  void value(const char* name, Value value, const std::string& more = {}) {
    out_ += fmt::format("{}{{{}{}}} {}\n", name, labels_, more, static_cast<double>(value));
  }
  template <class Value>
  void gauge(const char* name, const char* what, Value of) {
    head(name, "gauge", what);
    value(name, of);
  }
  void rows(std::span<const row> rows, const all_counters& all) {
    for (const auto& [name, type, what, member] : rows) {
      head(name, type, what);
      value(name, sum(all, member));
    }
  }
  void plain_rows(std::span<const row> rows, const all_counters& all) {
    for (const auto& [name, type, what, member] : rows) {
      head(name, type, what);
      out_ += fmt::format("{} {}\n", name, sum(all, member));
    }
  }
  std::string take() { return std::move(out_); }

 private:
  std::string labels_;
  std::string out_;
};

double hit_rate(const all_counters& all) {
  const auto queries = sum(all, &counters::cache_queries);
  return queries == 0 ? 0
                      : static_cast<double>(sum(all, &counters::cache_hits)) / static_cast<double>(queries);
}

void write_vllm(const all_counters& all, const load_now& load, text_writer& to) {
  to.gauge("vllm:num_requests_running", "Requests being answered.", load.running);
  to.gauge("vllm:num_requests_waiting", "Requests waiting.", load.waiting);
  to.gauge("vllm:kv_cache_usage_perc", "KV cache in use; 1 is all of it.", load.usage());
  to.rows(k_vllm_rows, all);
  to.head("vllm:request_success_total", "counter", "Requests answered to their end.");
  to.value("vllm:request_success_total", sum(all, &counters::success_stop), ",finished_reason=\"stop\"");
  to.value("vllm:request_success_total", sum(all, &counters::success_length), ",finished_reason=\"length\"");
  to.head("vllm:cache_config_info", "gauge", "The cache's configuration, as labels.");
  to.value("vllm:cache_config_info", 1,
           fmt::format(",block_size=\"{}\",enable_prefix_caching=\"True\",num_gpu_blocks=\"{}\"",
                       load.block_tokens, load.blocks));
}

void write_sglang(const all_counters& all, const load_now& load, std::int64_t state_slots, text_writer& to) {
  to.gauge("sglang:num_running_reqs", "Requests being answered.", load.running);
  to.gauge("sglang:num_queue_reqs", "Requests waiting.", load.waiting);
  to.gauge("sglang:num_used_tokens", "Tokens of the requests that run.", load.used_tokens);
  to.gauge("sglang:max_total_num_tokens", "Tokens that the cache holds.", load.capacity_tokens());
  to.gauge("sglang:token_usage", "Pool in use; 1 is all of it.", load.usage());
  if (state_slots > 0) {
    const double share = static_cast<double>(load.running) / static_cast<double>(state_slots);
    to.gauge("sglang:full_token_usage", "Pages in use; 1 is all of them.", load.usage());
    to.gauge("sglang:mamba_usage", "State slots in use; 1 is all of them.", std::min(share, 1.0));
  }
  to.gauge("sglang:cache_hit_rate", "Prompt tokens found of those looked up.", hit_rate(all));
  to.rows(k_sglang_rows, all);
  to.head("sglang:cached_tokens_total", "counter", "Prompt tokens found.");
  to.value("sglang:cached_tokens_total", sum(all, &counters::cache_hits), ",cache_source=\"device\"");
  to.head("sglang:num_requests_total", "counter", "Requests answered to their end.");
  to.value("sglang:num_requests_total",
           sum(all, &counters::success_stop) + sum(all, &counters::success_length));
  to.head("sglang:cache_config_info", "gauge", "The cache's configuration, as labels.");
  to.value("sglang:cache_config_info", 1,
           fmt::format(",page_size=\"{}\",num_pages=\"{}\"", load.block_tokens, load.blocks));
}

}  // namespace

std::string metrics_text(const all_counters& all, const mock_options& options, const replica* behind) {
  const auto load = load_of(all, behind);
  if (options.flavor == engine_flavor::sglang) {
    text_writer to(fmt::format(R"(model_name="{}",tp_rank="0")", options.model));
    write_sglang(all, load, options.state_slots, to);
    to.plain_rows(k_own_rows, all);
    return to.take();
  }
  text_writer to(fmt::format(R"(engine="0",model_name="{}")", options.model));
  write_vllm(all, load, to);
  to.plain_rows(k_own_rows, all);
  return to.take();
}

std::string loads_json(const all_counters& all, const mock_options& options, const replica* behind) {
  const auto load = load_of(all, behind);
  constexpr std::int64_t k_no_limit = 1 << 20;
  return fmt::format(
      R"({{"timestamp":"{:%Y-%m-%dT%H:%M:%S}+00:00","version":"mock","loads":[{{"dp_rank":0,)"
      R"("num_running_reqs":{},"num_waiting_reqs":{},"num_waiting_uncached_tokens":{},"num_used_tokens":{},)"
      R"("num_total_tokens":{},"max_total_num_tokens":{},"max_running_requests":{},"token_usage":{:.4f},)"
      R"("gen_throughput":0.0,"cache_hit_rate":{:.4f},"utilization":0.0}}]}})",
      fmt::gmtime(std::time(nullptr)), load.running, load.waiting, load.waiting_uncached_tokens,
      load.used_tokens, load.used_tokens + load.waiting_tokens, load.capacity_tokens(),
      behind != nullptr ? options.replica.batch : k_no_limit, load.usage(), hit_rate(all));
}

}  // namespace weir::loadtest::mock
