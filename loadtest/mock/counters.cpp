#include "loadtest/mock/counters.hpp"

#include <fmt/format.h>

#include <algorithm>

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

constexpr row k_engine_rows[] = {
    {"vllm:num_requests_running", "gauge", "Requests being answered.", &counters::running},
    {"vllm:prefix_cache_queries_total", "counter", "Prompt tokens looked up.", &counters::cache_queries},
    {"vllm:prefix_cache_hits_total", "counter", "Prompt tokens found.", &counters::cache_hits},
    {"vllm:prompt_tokens_total", "counter", "Prompt tokens processed.", &counters::prompt_tokens},
    {"vllm:generation_tokens_total", "counter", "Tokens generated.", &counters::generation_tokens},
};

constexpr row k_own_rows[] = {
    {"mock_requests_total", "counter", "Whole requests of any path.", &counters::requests},
    {"mock_malformed_requests_total", "counter", "Requests that break HTTP.", &counters::malformed},
    {"mock_aborted_total", "counter", "Clients gone before their answer was complete.", &counters::aborted},
    {"mock_faults_total", "counter", "Answers with a fault.", &counters::faults},
    {"mock_connections_open", "gauge", "Connections open.", &counters::connections_open},
    {"mock_connections_total", "counter", "Connections accepted.", &counters::connections},
};

void append_head(std::string& out, const char* name, const char* type, const char* what) {
  out += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, what);
}

}  // namespace

std::string metrics_text(const all_counters& all, const std::string& model) {
  std::string out;
  const auto labels = fmt::format(R"(engine="0",model_name="{}")", model);
  for (const auto& [name, type, what, member] : k_engine_rows) {
    append_head(out, name, type, what);
    out += fmt::format("{}{{{}}} {}.0\n", name, labels, sum(all, member));
  }
  append_head(out, "vllm:num_requests_waiting", "gauge", "Requests waiting: a mock never lets one wait.");
  out += fmt::format("vllm:num_requests_waiting{{{}}} 0.0\n", labels);
  const auto share = static_cast<double>(sum(all, &counters::tokens_in_use)) / (k_kv_blocks * k_block_tokens);
  append_head(out, "vllm:kv_cache_usage_perc", "gauge", "KV cache in use; 1 is all of it.");
  out += fmt::format("vllm:kv_cache_usage_perc{{{}}} {}\n", labels, std::min(share, 1.0));
  append_head(out, "vllm:request_success_total", "counter", "Requests answered to their end.");
  out += fmt::format("vllm:request_success_total{{{},finished_reason=\"stop\"}} {}.0\n", labels,
                     sum(all, &counters::success_stop));
  out += fmt::format("vllm:request_success_total{{{},finished_reason=\"length\"}} {}.0\n", labels,
                     sum(all, &counters::success_length));
  append_head(out, "vllm:cache_config_info", "gauge", "The cache's configuration, as labels.");
  out += fmt::format(
      "vllm:cache_config_info{{block_size=\"{}\",enable_prefix_caching=\"True\",engine=\"0\","
      "num_gpu_blocks=\"{}\"}} 1.0\n",
      k_block_tokens, k_kv_blocks);
  for (const auto& [name, type, what, member] : k_own_rows) {
    append_head(out, name, type, what);
    out += fmt::format("{} {}\n", name, sum(all, member));
  }
  return out;
}

}  // namespace weir::loadtest::mock
