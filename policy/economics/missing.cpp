#include "policy/economics/inputs.hpp"

namespace weir::policy::economics {

namespace {

class list final {
 public:
  template <class T>
  void need(const std::optional<T>& value, std::string_view key, std::string_view hint) {
    if (!value) add(key, hint);
  }
  void add(std::string_view key, std::string_view hint) {
    out_.push_back({.key = std::string(key), .hint = std::string(hint)});
  }
  std::vector<missing_input> take() { return std::move(out_); }

 private:
  std::vector<missing_input> out_;
};

void add_traffic(list& out, const traffic_inputs& in) {
  out.need(in.requests_per_hour, "traffic.requests_per_hour", "--live takes it from a gateway's ledger");
  out.need(in.peak_to_mean, "traffic.peak_to_mean",
           "the busiest hour's requests over the mean hour's; --live has it");
  out.need(in.local_only_share, "traffic.local_only_share",
           "share of requests that may not leave; 0 if all may");
  bool has_prompt = !in.kinds.empty();
  bool has_output = has_prompt;
  for (const auto& kind : in.kinds) {
    has_prompt = has_prompt && kind.prompt_tokens;
    has_output = has_output && kind.output_tokens;
  }
  if (!has_prompt) out.add("traffic.prompt_tokens", "mean of a request; --live has it");
  if (!has_output) out.add("traffic.output_tokens", "mean of a request, reasoning included; --live has it");
}

void add_api(list& out, const api_inputs& in) {
  if (in.tiers.empty()) out.add("api.prices", "the provider's price list");
  for (std::size_t i = 0; i < in.tiers.size(); ++i) {
    const auto& tier = in.tiers[i];
    const std::string at = "api.prices[" + std::to_string(i) + "].";
    out.need(tier.miss, at + "miss", "the provider's price list");
    out.need(tier.cached, at + "cached", "the provider's price list; without a discount: what a miss costs");
    out.need(tier.output, at + "output", "the provider's price list");
    if (in.write_5m_share > 0) out.need(tier.write_5m, at + "write_5m", "the provider's price list");
    if (in.write_1h_share > 0) out.need(tier.write_1h, at + "write_1h", "the provider's price list");
  }
  out.need(in.hit_rate, "api.hit_rate", "cached tokens over prompt tokens of the provider's bills");
  out.need(in.accepted_share, "api.accepted_share",
           "share of requests answered in the latency contract, without error or retry; --live has it");
}

void add_self_host(list& out, const self_host_inputs& in) {
  out.need(in.gpus_per_replica, "self_host.gpus_per_replica", "GPUs of one copy of the model");
  if (in.purchase) {
    const auto& bought = *in.purchase;
    out.need(bought.usd_per_replica, "self_host.purchase.usd_per_replica", "the offer");
    out.need(bought.months, "self_host.purchase.months", "how long it is written off");
    out.need(bought.kw_per_replica, "self_host.purchase.kw_per_replica", "measured under load");
    out.need(bought.usd_per_kwh, "self_host.purchase.usd_per_kwh", "the contract");
  } else if (!in.usd_per_gpu_hour && !in.usd_per_replica_hour) {
    out.add("self_host.usd_per_gpu_hour", "the rent; or usd_per_replica_hour, or purchase");
  }
  out.need(in.prefill_tokens_per_s, "self_host.prefill_tokens_per_s",
           "measured on one replica, prompts that are not cached");
  out.need(in.decode_tokens_per_s, "self_host.decode_tokens_per_s",
           "measured on one replica, all sequences, at the wanted time between tokens");
  out.need(in.hit_rate, "self_host.hit_rate", "measured, or replayed: weir-loadtest replay");
  out.need(in.accepted_share, "self_host.accepted_share",
           "share of requests answered in the latency contract, without error or retry; --live has it");
}

void add_operations(list& out, const memory_inputs& memory, const operations_inputs& in) {
  out.need(memory.weights_bytes, "memory.weights_bytes", "total_size of the checkpoint's index");
  out.need(memory.gpu_bytes, "memory.gpu_bytes", "of one GPU");
  out.need(memory.runtime_bytes_per_gpu, "memory.runtime_bytes_per_gpu",
           "what the engine takes besides weights and state");
  out.need(memory.state_bytes, "memory.state_bytes", "recurrent state of one sequence; 0 if there is none");
  out.need(memory.page_bytes_per_token, "memory.page_bytes_per_token", "attention pages of one token");
  out.need(in.gpu_mtbf_hours, "operations.gpu_mtbf_hours", "the operator's records, or the vendor");
  out.need(in.repair_hours, "operations.repair_hours", "from a loss until the replica serves again");
  out.need(in.on_call_hours_per_month, "operations.on_call_hours_per_month",
           "people's time; 0 if it is none");
}

}  // namespace

std::vector<missing_input> missing(const inputs& in) {
  list out;
  add_traffic(out, in.traffic);
  add_api(out, in.api);
  add_self_host(out, in.self_host);
  add_operations(out, in.memory, in.operations);
  return out.take();
}

}  // namespace weir::policy::economics
