// Inputs that tests of the economics start from: all that is needed, in round numbers. Kimi K3's prices and
// sizes are the published ones.
#pragma once

#include "policy/economics/inputs.hpp"

namespace weir::policy::economics {

inline constexpr std::int64_t k_k3_weights_bytes = 1'560'860'324'864;
inline constexpr std::int64_t k_k3_state_bytes = 449'372'160;  // one checkpoint of all 69 KDA layers
inline constexpr std::int64_t k_k3_page_bytes = 27'648;        // of one token in 24 MLA layers, bf16

inline api_tier k3_prices() {
  return {.prompt_tokens_min = 0, .miss = 3, .cached = 0.3, .output = 15, .write_5m = 3, .write_1h = 6};
}

// 20,000 tokens in, 500 out, 3600 requests an hour, on one node of eight GPUs at $5.
inline inputs k3_on_one_node() {
  inputs in;
  in.traffic = {.requests_per_hour = 3600,
                .peak_to_mean = 2,
                .local_only_share = 0,
                .reuse_share = 0.95,
                .kinds = {{.name = "all", .share = 1, .prompt_tokens = 20'000, .output_tokens = 500}}};
  in.api.tiers = {k3_prices()};
  in.api.hit_rate = 0.9;
  in.api.accepted_share = 0.945;
  in.self_host.gpus_per_replica = 8;
  in.self_host.usd_per_gpu_hour = 5;
  in.self_host.prefill_tokens_per_s = 20'000;
  in.self_host.decode_tokens_per_s = 2'000;
  in.self_host.hit_rate = 0.8;
  in.self_host.accepted_share = 0.8;
  in.memory = {.weights_bytes = k_k3_weights_bytes,
               .gpu_bytes = 288'000'000'000,
               .runtime_bytes_per_gpu = 20'000'000'000,
               .state_bytes = k_k3_state_bytes,
               .page_bytes_per_token = k_k3_page_bytes,
               .pages_on_each_gpu = true,
               .contexts = {8'192, 131'072, 1'048'576}};
  in.operations.gpu_mtbf_hours = 11'664;
  in.operations.repair_hours = 2;
  in.operations.on_call_hours_per_month = 10;
  return in;
}

}  // namespace weir::policy::economics
