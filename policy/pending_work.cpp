#include "policy/pending_work.hpp"

#include <algorithm>

namespace weir::policy {

namespace {

constexpr double k_late_factor = 2;
constexpr double k_late_s = 0.05;

}  // namespace

pending_work::ticket pending_work::dispatched(double work_tokens, double now_s, bool tells_first_token) {
  if (jobs_.empty()) head_since_s_ = now_s;
  const double work = std::max(0.0, work_tokens);
  jobs_.push_back({next_, work, tells_first_token});
  total_tokens_ += work;
  return next_++;
}

void pending_work::done(ticket id, double now_s) {
  const auto found =
      std::lower_bound(jobs_.begin(), jobs_.end(), id, [](const job& j, ticket t) { return j.id < t; });
  if (found == jobs_.end() || found->id != id) return;
  if (found == jobs_.begin()) head_since_s_ = now_s;
  done_s_ = now_s;
  total_tokens_ -= found->work_tokens;
  jobs_.erase(found);
  // Sums of many additions and subtractions drift; an empty ledger is exactly empty.
  if (jobs_.empty()) total_tokens_ = 0;
}

double pending_work::tokens(double tokens_per_s, double now_s) const noexcept {
  if (jobs_.empty()) return 0;
  double could_do = std::max(0.0, now_s - head_since_s_) * std::max(0.0, tokens_per_s);
  double left = total_tokens_;
  for (const auto& j : jobs_) {
    const double done = std::min(could_do, j.work_tokens);
    left -= done;
    could_do -= done;
    if (j.tells_first_token || could_do <= 0) break;
  }
  return std::max(0.0, left);
}

double pending_work::overdue_s(double tokens_per_s, double base_s, double now_s) const noexcept {
  if (jobs_.empty() || !jobs_.front().tells_first_token || tokens_per_s <= 0) return 0;
  const double due_s = k_late_factor * (jobs_.front().work_tokens / tokens_per_s + base_s) + k_late_s;
  return std::max(0.0, now_s - std::max(head_since_s_, done_s_) - due_s);
}

}  // namespace weir::policy
