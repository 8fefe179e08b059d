#include "policy/failover/overload.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "policy/mix.hpp"

namespace weir::policy::failover {

namespace {

constexpr double k_meter_fade_s = 5;
constexpr double k_meter_prior_s = 1;
constexpr double k_meter_trusted_s = 4;  // of backlog: one long prefill is no slow target
constexpr double k_backlog_s = 0.1;      // waits below it are no backlog
constexpr double k_jitter_share = 0.5;

struct tenant_sum {
  std::int64_t weight = 1;
  double lead_tokens = 0;
  double work_tokens = 0;
  std::size_t requests = 0;
};
using tenant_sums = std::unordered_map<std::uint32_t, tenant_sum>;

void add(tenant_sums& sums, const queued_request& r) {
  auto& sum = sums[r.tenant];
  sum.weight = std::max<std::int64_t>(1, r.weight);
  sum.lead_tokens = r.lead_tokens;
  sum.work_tokens += r.work_tokens;
  ++sum.requests;
}

// Work that is served before the newcomer: of higher ranks all; of its own, what of each tenant starts before
// its virtual time.
double work_ahead(const queued_request& newcomer, std::span<const queued_request> waiting) {
  double ahead = 0;
  tenant_sums sums;
  for (const auto& w : waiting) {
    if (w.rank > newcomer.rank) ahead += w.work_tokens;
    if (w.rank == newcomer.rank) add(sums, w);
  }
  const auto own = sums.find(newcomer.tenant);
  const double own_tokens = own == sums.end() ? 0 : own->second.work_tokens;
  const auto weight = static_cast<double>(std::max<std::int64_t>(1, newcomer.weight));
  const double starts_at = newcomer.lead_tokens + (own_tokens + newcomer.work_tokens) / weight;
  for (const auto& [tenant, sum] : sums) {
    const double before = (starts_at - sum.lead_tokens) * static_cast<double>(sum.weight);
    ahead += tenant == newcomer.tenant ? sum.work_tokens : std::clamp(before, 0.0, sum.work_tokens);
  }
  return ahead;
}

double all_work(std::span<const queued_request> waiting, shed_rank from) noexcept {
  double sum = 0;
  for (const auto& w : waiting) sum += w.rank >= from ? w.work_tokens : 0;
  return sum;
}

double retry_after(double room_in_s, const queue_terms& terms, std::uint64_t seed) noexcept {
  const double stretched =
      std::max(room_in_s, terms.retry_after_min_s) * (1 + k_jitter_share * mixed_unit(seed));
  return std::min(stretched, terms.retry_after_max_s);
}

// How long the newcomer may wait.
double bound_of(const queued_request& newcomer, double tokens_per_s, const queue_terms& terms) noexcept {
  const double left_s = newcomer.left_s * terms.deadline_share - newcomer.work_tokens / tokens_per_s;
  return std::min(terms.wait_max_s, left_s);
}

// Whom to refuse when one is too many; k_nobody: the newcomer.
std::size_t choose_victim(const queued_request& newcomer, std::span<const queued_request> waiting) {
  shed_rank lowest = newcomer.rank;
  for (const auto& w : waiting) lowest = std::min(lowest, w.rank);
  tenant_sums sums;
  for (const auto& w : waiting) {
    if (w.rank == lowest) add(sums, w);
  }
  const bool takes_part = newcomer.rank == lowest;
  if (takes_part) add(sums, newcomer);
  const auto load_of = [&](const queued_request& r) {
    const auto& sum = sums.at(r.tenant);
    return static_cast<double>(sum.requests) / static_cast<double>(sum.weight);
  };
  double most = takes_part ? load_of(newcomer) : -1;
  std::size_t victim = k_nobody;
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    const auto& w = waiting[i];
    if (w.rank != lowest) continue;
    const double load = load_of(w);
    const bool is_newer = victim != k_nobody && load == most && w.waited_s < waiting[victim].waited_s;
    if (load <= most && !is_newer) continue;
    most = load;
    victim = i;
  }
  return victim;
}

}  // namespace

bool surely_fits(const queued_request& newcomer, std::size_t waiting, double waiting_tokens,
                 double tokens_per_s, const queue_terms& terms) noexcept {
  if (waiting >= terms.requests_max) return false;
  if (tokens_per_s <= 0 || waiting_tokens <= 0) return true;
  return waiting_tokens / tokens_per_s <= bound_of(newcomer, tokens_per_s, terms);
}

admission admit(const queued_request& newcomer, std::span<const queued_request> waiting, double tokens_per_s,
                const queue_terms& terms, std::uint64_t seed) {
  admission out;
  const bool is_known = tokens_per_s > 0;
  if (is_known) {
    const double bound_s = bound_of(newcomer, tokens_per_s, terms);
    out.wait_s = all_work(waiting, newcomer.rank) / tokens_per_s;
    if (out.wait_s > bound_s) out.wait_s = work_ahead(newcomer, waiting) / tokens_per_s;
    if (out.wait_s > 0 && out.wait_s > bound_s) {
      out.why = refusal::too_late;
      out.retry_after_s = retry_after(out.wait_s - std::max(0.0, bound_s), terms, seed);
      return out;
    }
  }
  if (waiting.size() < terms.requests_max) return out;
  out.victim = choose_victim(newcomer, waiting);
  if (out.victim == k_nobody) out.why = refusal::queue_full;
  const double one_s = is_known && !waiting.empty() ? all_work(waiting, k_shadow_rank) /
                                                          static_cast<double>(waiting.size()) / tokens_per_s
                                                    : 0;
  out.retry_after_s = retry_after(one_s, terms, seed);
  return out;
}

std::size_t hopeless(std::span<const queued_request> waiting, double tokens_per_s) noexcept {
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    const double work_s = tokens_per_s > 0 ? waiting[i].work_tokens / tokens_per_s : 0;
    if (waiting[i].left_s <= 0 || waiting[i].left_s < work_s) return i;
  }
  return k_nobody;
}

double drain_meter::backlog_s(std::size_t waiting, double now_s) const noexcept {
  return waiting > 0 ? std::max(0.0, now_s - std::max(at_s_, since_s_ + k_backlog_s)) : 0;
}

void drain_meter::changed(std::size_t waiting, double served_tokens, double now_s) noexcept {
  if (const double past_s = backlog_s(waiting, now_s); past_s > 0) {
    const double kept = std::exp(-past_s / k_meter_fade_s);
    work_tokens_ *= kept;
    busy_s_ = busy_s_ * kept + past_s;
  }
  if (waiting == 0) since_s_ = now_s;
  if (now_s - since_s_ > k_backlog_s) work_tokens_ += std::max(0.0, served_tokens);
  at_s_ = now_s;
}

double drain_meter::tokens_per_s(double expected_tokens_per_s, std::size_t waiting,
                                 double now_s) const noexcept {
  const double past_s = backlog_s(waiting, now_s);
  const double kept = std::exp(-past_s / k_meter_fade_s);
  const double busy_s = busy_s_ * kept + past_s;
  if (expected_tokens_per_s <= 0) return busy_s < k_meter_prior_s ? 0 : work_tokens_ * kept / busy_s;
  const double prior_s = k_meter_prior_s * std::max(0.0, 1 - busy_s / k_meter_trusted_s);
  return (work_tokens_ * kept + expected_tokens_per_s * prior_s) / (busy_s + prior_s);
}

}  // namespace weir::policy::failover
