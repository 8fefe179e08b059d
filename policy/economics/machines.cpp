#include "policy/economics/machines.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "policy/limits/money.hpp"

namespace weir::policy::economics {

namespace {

constexpr double k_seconds_per_hour = 3600;
constexpr double k_whole = 1e-12;  // a quotient this little above a whole number is that number
constexpr double k_infinite = std::numeric_limits<double>::infinity();

std::int64_t divide_up(std::int64_t a, std::int64_t b) noexcept {
  return a / b + (a % b != 0 ? 1 : 0);
}

struct lengths {
  double prompt = 0;
  double output = 0;
};

std::optional<lengths> mean_lengths(const traffic_inputs& traffic) {
  if (traffic.kinds.empty()) return std::nullopt;
  lengths out;
  for (const auto& kind : traffic.kinds) {
    if (!kind.prompt_tokens || !kind.output_tokens) return std::nullopt;
    out.prompt += kind.share * *kind.prompt_tokens;
    out.output += kind.share * *kind.output_tokens;
  }
  return out;
}

}  // namespace

std::int64_t memory_fit::sequences(double context_tokens) const noexcept {
  if (!fits) return 0;
  const double each =
      static_cast<double>(sequence_bytes_per_gpu) + context_tokens * static_cast<double>(token_bytes_per_gpu);
  const double count = each > 0 ? std::floor(static_cast<double>(free_bytes_per_gpu) / each) : k_infinite;
  constexpr double most = 1e15;
  return static_cast<std::int64_t>(std::min(count, most));
}

std::optional<memory_fit> fit_memory(const memory_inputs& memory, const self_host_inputs& self) {
  if (!memory.weights_bytes || !memory.gpu_bytes || !memory.runtime_bytes_per_gpu || !memory.state_bytes ||
      !memory.page_bytes_per_token || !self.gpus_per_replica) {
    return std::nullopt;
  }
  const auto gpus = *self.gpus_per_replica;
  memory_fit out;
  const std::int64_t room = *memory.gpu_bytes - *memory.runtime_bytes_per_gpu;
  out.free_bytes_per_gpu = room - divide_up(*memory.weights_bytes, gpus);
  out.fits = out.free_bytes_per_gpu >= 0;
  out.gpus_min = room > 0 ? divide_up(*memory.weights_bytes, room) : 0;
  out.sequence_bytes_per_gpu = divide_up(*memory.state_bytes, gpus);
  out.token_bytes_per_gpu =
      memory.pages_on_each_gpu ? *memory.page_bytes_per_token : divide_up(*memory.page_bytes_per_token, gpus);
  return out;
}

std::optional<std::vector<resource>> resources(const inputs& in, const std::optional<memory_fit>& fit) {
  const auto& self = in.self_host;
  const auto mean = mean_lengths(in.traffic);
  if (!mean || !self.prefill_tokens_per_s || !self.decode_tokens_per_s) return std::nullopt;
  const double cold_s = mean->prompt / *self.prefill_tokens_per_s;
  std::vector<resource> out{{.name = "work",
                             .fixed_s = mean->output / *self.decode_tokens_per_s,
                             .cold_s = cold_s,
                             .available_s = k_seconds_per_hour * self.utilisation_max}};
  if (self.itl_ms && fit) {
    const auto slots = static_cast<double>(fit->sequences(mean->prompt + mean->output));
    out.push_back({.name = "memory",
                   .fixed_s = mean->output * *self.itl_ms / 1000,
                   .cold_s = cold_s,
                   .available_s = k_seconds_per_hour * slots});
  }
  return out;
}

binding replicas_per_load(const std::vector<resource>& all, double peak_to_mean, double hit_rate) noexcept {
  binding most{.replicas = -1, .name = {}};
  for (const auto& r : all) {
    const double taken = r.taken_s(hit_rate) * peak_to_mean;
    const double replicas = taken > 0 ? (r.available_s > 0 ? taken / r.available_s : k_infinite) : 0;
    if (replicas > most.replicas) most = {.replicas = replicas, .name = r.name};
  }
  return most;
}

std::int64_t replicas_for(double requests_per_hour, const binding& bound) noexcept {
  const double replicas = requests_per_hour > 0 ? requests_per_hour * bound.replicas : 0;
  if (!(replicas <= static_cast<double>(k_replicas_max))) return k_replicas_max + 1;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(replicas * (1 - k_whole))));
}

std::optional<failures> expect_failures(const operations_inputs& operations, const self_host_inputs& self) {
  if (!operations.gpu_mtbf_hours || !operations.repair_hours || !self.gpus_per_replica) return std::nullopt;
  const double replica_mtbf_h = *operations.gpu_mtbf_hours / static_cast<double>(*self.gpus_per_replica);
  // A replica that is down cannot be lost.
  const double cycle_h = replica_mtbf_h + *operations.repair_hours;
  return failures{.losses_per_replica_month = k_hours_per_month / cycle_h,
                  .down_share = *operations.repair_hours / cycle_h};
}

std::optional<std::int64_t> spares_for(std::int64_t serving, const failures& expected, double availability,
                                       std::int64_t most) noexcept {
  const double p = expected.down_share;
  for (std::int64_t spares = 0; spares <= most; ++spares) {
    const auto all = static_cast<double>(serving + spares);
    double log_chance = all * std::log1p(-p);  // of none down; of one more at each round
    double at_most = 0;
    for (std::int64_t down = 0; down <= spares; ++down) {
      at_most += std::exp(log_chance);
      const auto k = static_cast<double>(down);
      log_chance += std::log((all - k) / (k + 1)) + std::log(p) - std::log1p(-p);
    }
    if (at_most >= availability * (1 - k_whole)) return spares;
  }
  return std::nullopt;
}

std::optional<std::vector<cost_line>> machine_costs(const self_host_inputs& self,
                                                    const operations_inputs& operations,
                                                    const std::optional<failures>& expected) {
  std::vector<cost_line> out;
  if (self.purchase) {
    const auto& bought = *self.purchase;
    if (!bought.usd_per_replica || !bought.months || !bought.kw_per_replica || !bought.usd_per_kwh) {
      return std::nullopt;
    }
    out.push_back({"write-off", *bought.usd_per_replica / (*bought.months * k_hours_per_month), 0});
    out.push_back({"power", *bought.kw_per_replica * bought.pue * *bought.usd_per_kwh, 0});
  } else if (self.usd_per_replica_hour) {
    out.push_back({"rent", *self.usd_per_replica_hour, 0});
  } else if (self.usd_per_gpu_hour && self.gpus_per_replica) {
    out.push_back({"rent", *self.usd_per_gpu_hour * static_cast<double>(*self.gpus_per_replica), 0});
  } else {
    return std::nullopt;
  }
  if (self.hosting_usd_per_replica_month > 0) {
    out.push_back({"hosting", self.hosting_usd_per_replica_month / k_hours_per_month, 0});
  }
  if (self.staff_usd_per_month > 0) out.push_back({"staff", 0, self.staff_usd_per_month / k_hours_per_month});
  if (operations.on_call_usd_per_hour && operations.on_call_hours_per_month) {
    const double rate = *operations.on_call_usd_per_hour / k_hours_per_month;
    const double losses = expected ? expected->losses_per_replica_month : 0;
    out.push_back(
        {"on call", losses * operations.hours_per_loss * rate, *operations.on_call_hours_per_month * rate});
  }
  return out;
}

}  // namespace weir::policy::economics
