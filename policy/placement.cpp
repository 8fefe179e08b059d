#include "policy/placement.hpp"

#include <algorithm>
#include <cmath>
#include <compare>
#include <limits>
#include <vector>

namespace weir::policy {

namespace {

constexpr double k_classes_gained_max = 1000;

double least_work(const waiting_request& r, std::span<const target_view> targets) noexcept {
  double least = static_cast<double>(r.facts.prompt_tokens);
  for (std::size_t i = 0; i < r.prefixes.size(); ++i) {
    if (targets[i].ready) least = std::min(least, uncached_tokens(r.facts, r.prefixes[i]));
  }
  return least;
}

double fastest_rate(std::span<const target_view> targets) noexcept {
  double rate = 0;
  for (const auto& t : targets) {
    if (t.kind == target_kind::replica) rate = std::max(rate, prefill_rate(t.speed));
  }
  return rate;
}

int effective_class(const waiting_request& request, const placement_terms& terms) noexcept {
  if (terms.class_ageing_s <= 0) return request.priority;
  const double gained = std::min(request.class_waited_s / terms.class_ageing_s, k_classes_gained_max);
  return request.priority + static_cast<int>(gained);
}

std::vector<std::size_t> in_order(std::span<const target_view> targets,
                                  std::span<const waiting_request> waiting, const placement_terms& terms) {
  const double rate = fastest_rate(targets);
  struct rank {
    int lower_class;
    double lead_steps;
    double work;

    auto operator<=>(const rank&) const = default;
  };
  std::vector<rank> ranks;
  std::vector<std::size_t> order(waiting.size());
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    order[i] = i;
    const auto& w = waiting[i];
    if (!may_wait(w.how.kind)) {
      ranks.push_back({std::numeric_limits<int>::min(), 0, 0});
      continue;
    }
    const double work = least_work(w, targets);
    ranks.push_back({-effective_class(w, terms), std::floor(w.lead_tokens / (rate * terms.lead_step_s)),
                     (work > terms.long_tokens ? 0 : work) - terms.ageing * rate * w.waited_s});
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return ranks[a] < ranks[b]; });
  return order;
}

bool is_busy(const target_view& target, double ahead_tokens, const placement_terms& terms) noexcept {
  if (target.kind != target_kind::replica || target.speed.prefill_tokens_per_s <= 0) return false;
  const double most = terms.hold_s * prefill_rate(target.speed) + k_busy_slack_tokens;
  return target.load.pending_prefill_tokens + ahead_tokens > most;
}

// Whether somebody would serve it as soon as another request ends there.
bool gets_free(const decision& made, std::span<const target_view> targets,
               const overflow_terms& overflow) noexcept {
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (is_full(made.candidates[i].why) && may_serve(targets[i], overflow)) return true;
  }
  return false;
}

}  // namespace

bool may_wait(policy_kind kind) noexcept {
  return kind == policy_kind::balanced;
}

double expected_prefill_rate(std::span<const target_view> targets) noexcept {
  double rate = 0;
  for (const auto& t : targets) {
    const bool counts = t.kind == target_kind::replica && t.ready && t.set_aside == aside::no;
    if (counts && t.speed.prefill_tokens_per_s > 0) rate += prefill_rate(t.speed);
  }
  return rate;
}

std::optional<placed> place_next(std::span<const target_view> targets,
                                 std::span<const waiting_request> waiting, const placement_terms& terms) {
  std::vector<double> ahead(targets.size(), 0.0);
  std::vector<target_view> seen;
  for (const std::size_t i : in_order(targets, waiting, terms)) {
    const auto& r = waiting[i];
    std::span<const target_view> views = targets;
    if (!r.excluded.empty() || !r.set_aside.empty()) {
      seen.assign(targets.begin(), targets.end());
      for (std::size_t t = 0; t < seen.size(); ++t) {
        seen[t].excluded = seen[t].excluded || (!r.excluded.empty() && r.excluded[t]);
        if (!r.set_aside.empty() && seen[t].set_aside == aside::no) seen[t].set_aside = r.set_aside[t];
      }
      views = seen;
    }
    auto made = route(r.facts, views, r.prefixes, r.how, r.overflow, r.seed, ahead);
    if (made.picked == decision::k_none) {
      if (gets_free(made, views, r.overflow) && may_wait(r.how.kind) && r.waited_s < terms.hold_max_s)
        continue;
      return placed{i, std::move(made)};
    }
    const auto& target = targets[made.picked];
    if (!may_wait(r.how.kind) || r.waited_s >= terms.hold_max_s ||
        !is_busy(target, ahead[made.picked], terms)) {
      return placed{i, std::move(made)};
    }
    ahead[made.picked] += uncached_tokens(r.facts, made.candidates[made.picked].prefix);
  }
  return std::nullopt;
}

}  // namespace weir::policy
