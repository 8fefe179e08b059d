#include "gateway/route/load_metrics.hpp"

#include <catch2/catch.hpp>
#include <string>

namespace weir::gateway::route {
namespace {

struct row {
  const char* name;
  std::string text;
  load_report expected;
};

constexpr const char* k_vllm =
    R"(# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="kimi-linear"} 12.0
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="kimi-linear"} 3.0
vllm:kv_cache_usage_perc{engine="0",model_name="kimi-linear"} 0.4375
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="kimi-linear"} 1.2345678e+07
vllm:prefix_cache_queries_created{engine="0",model_name="kimi-linear"} 1.7e+09
vllm:prefix_cache_hits_total{engine="0",model_name="kimi-linear"} 9e+06
vllm:cache_config_info{block_size="128",cache_dtype="auto",engine="0",num_gpu_blocks="20000"} 1.0
)";

constexpr const char* k_sglang = R"(# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 5.0
sglang:num_queue_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 2.0
sglang:num_used_tokens{model_name="m",tp_rank="0"} 4096.0
sglang:prompt_tokens_total{model_name="m"} 8.125e+03
sglang:cache_config_info{num_pages="1000",page_size="64"} 1.0
)";

constexpr const char* k_loads =
    R"({"timestamp":"2026-07-01T00:00:00+00:00","version":"0.5.9","dp_rank_count":2,
"loads":[{"dp_rank":0,"num_running_reqs":3,"num_waiting_reqs":1,"num_waiting_uncached_tokens":700,
"max_total_num_tokens":50000,"token_usage":0.25,"memory":{"weight_gb":10.5}},
{"dp_rank":1,"num_running_reqs":4,"num_waiting_reqs":0,"num_waiting_uncached_tokens":0.0,
"max_total_num_tokens":50000}],
"aggregate":{"total_running_reqs":7}})";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

TEST_CASE("loads are read from what replicas publish") {
  const load_report vllm{
      .running = 12, .waiting = 3, .capacity_tokens = 2'560'000, .queried_tokens = 12'345'678};
  const row rows[] = {
      {"vLLM", k_vllm, vllm},
      {"CRLF", replaced(k_vllm, "\n", "\r\n"), vllm},
      {"without a last line end", std::string(k_vllm) + "x 1", vllm},
      {"two engines",
       k_vllm + replaced(k_vllm, R"(engine="0")", R"(engine="1")"),
       {.running = 24, .waiting = 6, .capacity_tokens = 5'120'000, .queried_tokens = 24'691'356}},
      {"the same series twice", std::string(k_vllm) + k_vllm, vllm},
      {"SGLang", k_sglang, {.running = 5, .waiting = 2, .capacity_tokens = 64'000, .queried_tokens = 8'125}},
      {"ranks of one engine tell of the same requests",
       "sglang:num_running_reqs{tp_rank=\"0\"} 5\nsglang:num_running_reqs{tp_rank=\"1\"} 4\n",
       {.running = 5}},
      {"data-parallel ranks do not",
       "sglang:num_running_reqs{dp_rank=\"0\",tp_rank=\"0\"} 5\n"
       "sglang:num_running_reqs{dp_rank=\"1\",tp_rank=\"4\"} 4\n",
       {.running = 9}},
      {"SGLang's loads",
       k_loads,
       {.running = 7, .waiting = 1, .waiting_uncached_tokens = 700, .capacity_tokens = 100'000}},
      {"no labels, tabs, a time stamp", "vllm:num_requests_running\t7\t1700000000000\n", {.running = 7}},
      {"empty labels, spaces", "  vllm:num_requests_running { } +7e0 \n", {.running = 7}},
      {"escapes in labels",
       R"(vllm:num_requests_running{model_name="a\"} 9 \\",x="}",engine="0",} 7)",
       {.running = 7}},
      {"NaN, infinities and negatives are passed over",
       "vllm:num_requests_running NaN\nvllm:num_requests_waiting 4\nvllm:num_requests_running +Inf\n"
       "vllm:num_requests_running -Inf\nvllm:num_requests_running -1\n",
       {.waiting = 4}},
      {"so are numbers beyond reason",
       "vllm:num_requests_running 1e300\nvllm:num_requests_running 1e400\nvllm:num_requests_running 1000001\n"
       "vllm:prefix_cache_queries 1e16\nvllm:num_requests_waiting 1e6\n"
       "vllm:cache_config_info{block_size=\"999999999999\",num_gpu_blocks=\"999999999999\"} 1\n",
       {.waiting = 1e6}},
      {"and what is no number",
       "vllm:num_requests_running 7x\nvllm:num_requests_running\nvllm:num_requests_running{} \n"
       "vllm:num_requests_running 0x7\nvllm:num_requests_waiting 0\n"
       "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"None\"} 1\n",
       {.waiting = 0}},
      {"and labels that do not end",
       "vllm:num_requests_running{a=\"b} 1\nvllm:num_requests_running{a} 1\nvllm:num_requests_running{a=b} "
       "1\n"
       "vllm:num_requests_running{a=\"\\\nvllm:num_requests_waiting 2\n",
       {.waiting = 2}},
      {"and lines that are too long",
       "vllm:num_requests_running{a=\"" + std::string(k_metrics_line_bytes_max, 'x') +
           "\"} 1\nvllm:num_requests_waiting 2\n",
       {.waiting = 2}},
  };
  for (const auto& [name, text, expected] : rows) {
    INFO(name);
    const auto got = read_load(text);
    REQUIRE(got);
    CHECK(got->running == expected.running);
    CHECK(got->waiting == expected.waiting);
    CHECK(got->waiting_uncached_tokens == expected.waiting_uncached_tokens);
    CHECK(got->capacity_tokens == expected.capacity_tokens);
    CHECK(got->queried_tokens == expected.queried_tokens);
  }
}

TEST_CASE("what says nothing of load is no report") {
  const std::string rows[] = {
      "",
      "\n\n",
      "# vllm:num_requests_running 7\n",
      "vllm:num_requests_running_total 7\n",
      "vllm:num_requests_runnin 7\n",
      "process_cpu_seconds_total 7\n",
      "<html><body>502 Bad Gateway</body></html>",
      "{",
      "{}",
      R"({"loads":7})",
      R"({"loads":[]})",
      R"({"loads":[7,{"num_running_reqs":"7"},{"num_running_reqs":-1}]})",
      R"({"loads":[{"num_running_reqs":7})",
      std::string(100'000, '['),
      R"({"loads":)" + std::string(100'000, '['),
  };
  for (const auto& text : rows) {
    INFO(text.substr(0, 60));
    CHECK_FALSE(read_load(text));
  }
}

TEST_CASE("what is read is bounded") {
  std::string many;
  for (std::size_t i = 0; i < k_metrics_engines_max + 100; ++i) {
    many += "vllm:num_requests_running{engine=\"" + std::to_string(i) + "\"} 1\n";
  }
  CHECK(read_load(many)->running == static_cast<double>(k_metrics_engines_max));

  const std::string line = "vllm:num_requests_running 7\n";
  CHECK(read_load(std::string(k_metrics_lines_max - 1, '\n').insert(0, "x") + line)->running == 7);
  CHECK_FALSE(read_load(std::string(k_metrics_lines_max, '\n').insert(0, "x") + line));

  const std::string full = line + std::string(k_metrics_bytes_max - line.size(), 'x');
  CHECK(read_load(full)->running == 7);
  CHECK_FALSE(read_load(full + "x"));
}

}  // namespace
}  // namespace weir::gateway::route
