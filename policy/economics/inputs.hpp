// What "should we self-host?" is answered from: traffic, the API's price list, our own machines, memory and
// operations. Plain values; what may be unknown is optional, and what is unknown is named by missing(), never
// guessed. Pure; any thread.
//
// Units: USD; tokens; requests per hour; shares and rates from 0 to 1; a month has 730 hours.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weir::policy::economics {

inline constexpr double k_hours_per_month = 730;  // 8760 / 12
inline constexpr double k_tokens_per_request_max = 1e9;
inline constexpr double k_requests_per_hour_max = 1e12;
inline constexpr double k_usd_max = 1e12;  // any amount of the inputs
inline constexpr std::int64_t k_replicas_max = 1'000'000;
inline constexpr std::int64_t k_gpus_max = 65'536;  // of one replica

// Requests of one length. A price list that charges long prompts more needs the lengths apart.
struct traffic_kind {
  std::string name;
  double share = 1;  // of all requests
  std::optional<double> prompt_tokens;
  std::optional<double> output_tokens;
};

struct traffic_inputs {
  std::optional<double> requests_per_hour;  // mean over the month, as the clients send them
  std::optional<double> peak_to_mean;       // >= 1: machines are paid for the peak
  std::optional<double> local_only_share;   // of requests that no one else may see
  double reuse_share = 1;  // of prompt tokens that repeat an earlier prompt's beginning: no hit rate is above
  std::vector<traffic_kind> kinds;  // shares sum to 1
};

// USD per million tokens, for prompts of at least so many tokens. Each prompt token is charged once: read
// from the cache, written to it, or neither.
struct api_tier {
  std::int64_t prompt_tokens_min = 0;
  std::optional<double> miss;
  std::optional<double> cached;
  std::optional<double> output;
  std::optional<double> write_5m;  // a written token costs this in place of a miss
  std::optional<double> write_1h;
};

struct api_inputs {
  std::string name = "the API";
  std::vector<api_tier> tiers;  // ascending, the first from 0
  std::optional<double> hit_rate;
  std::optional<double> accepted_share;  // of requests: in the latency contract, no error, not retried
  double write_5m_share = 0;             // of the prompt tokens that are not read from the cache
  double write_1h_share = 0;
  double batch_share = 0;  // of requests that can wait for the batch interface
  double batch_discount = 0;
};

struct purchase_inputs {
  std::optional<double> usd_per_replica;
  std::optional<double> months;  // over which it is written off
  std::optional<double> kw_per_replica;
  std::optional<double> usd_per_kwh;
  double pue = 1;  // power of the building per power of the machines, >= 1
};

// A replica is one copy of the model with the GPUs that it needs.
struct self_host_inputs {
  std::string name = "own GPUs";
  std::optional<std::int64_t> replicas;  // in all; nothing: as many as the peak needs
  std::int64_t spare_replicas = 0;       // of these, for failures: they take no load
  std::optional<std::int64_t> gpus_per_replica;
  // Exactly one of the three.
  std::optional<double> usd_per_gpu_hour;
  std::optional<double> usd_per_replica_hour;
  std::optional<purchase_inputs> purchase;
  double hosting_usd_per_replica_month = 0;
  double staff_usd_per_month = 0;
  // Of one replica, measured. It does one or the other, so that a request takes
  // uncached / prefill + output / decode seconds of it.
  std::optional<double> prefill_tokens_per_s;
  std::optional<double> decode_tokens_per_s;  // all sequences together, at the wanted time between tokens
  std::optional<double> itl_ms;               // that time; with it, memory bounds the load too
  double utilisation_max = 1;                 // at the peak; above it, latency breaks the contract
  std::optional<double> hit_rate;             // of prompt tokens
  std::optional<double> accepted_share;
};

struct memory_inputs {
  std::optional<std::int64_t> weights_bytes;  // of the whole model
  std::optional<std::int64_t> gpu_bytes;
  std::optional<std::int64_t> runtime_bytes_per_gpu;  // all that is neither weights nor state
  std::optional<std::int64_t> state_bytes;            // recurrent, of one sequence; spread over the GPUs
  std::optional<std::int64_t> page_bytes_per_token;   // attention
  bool pages_on_each_gpu = true;                      // MLA under tensor parallelism; false: spread too
  std::vector<std::int64_t> contexts;                 // to show, in tokens
};

struct operations_inputs {
  std::optional<double> gpu_mtbf_hours;  // one GPU lost stops its replica
  std::optional<double> repair_hours;
  double availability = 0.999;  // share of the time in which no more replicas are down than there are spares
  std::optional<double> on_call_hours_per_month;
  double hours_per_loss = 0;                   // of work, on top
  std::optional<double> on_call_usd_per_hour;  // nothing: the hours are stated and cost nothing here
};

struct inputs {
  traffic_inputs traffic;
  api_inputs api;
  self_host_inputs self_host;
  memory_inputs memory;
  operations_inputs operations;
  std::vector<std::string> licence;  // terms to check: stated, not computed
};

// An input without which the answer is the API.
struct missing_input {
  std::string key;   // as in the file: "self_host.decode_tokens_per_s"
  std::string hint;  // where it comes from
};

std::vector<missing_input> missing(const inputs&);

}  // namespace weir::policy::economics
