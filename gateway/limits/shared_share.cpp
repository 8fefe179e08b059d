#include "gateway/limits/shared_share.hpp"

#include "gateway/limits/account.hpp"

namespace weir::gateway::limits {

namespace {

using policy::limits::lease_answer;
using shared::key_lease;
using shared::refused_by;

// The store answered, and others were quicker to take what it gave.
constexpr std::int64_t k_outrun_retry_ns = 100'000'000;
constexpr std::int64_t k_busy_retry_ns = 1'000'000'000;  // when one of the running ones may have ended

shared_share::verdict to_verdict(const key_lease::verdict& got) {
  using answer = shared_share::answer;
  if (got.answer == lease_answer::granted) return {};
  if (got.by == refused_by::slots) return {answer::no_slot, k_busy_retry_ns};
  return {got.by == refused_by::tokens ? answer::no_tokens : answer::no_request, got.retry_ns};
}

}  // namespace

shared_share::~shared_share() {
  if (has_slot_) key_->leave();
}

shared_share::verdict shared_share::unanswered(bool before, answer refusal) const noexcept {
  if (before && hub_.up()) return {refusal, k_outrun_retry_ns};
  return {answer::away};
}

task<shared_share::verdict> shared_share::enter(const auth::key_limits& limits) {
  const shared::lack lacking{.requests = limits.requests_per_min > 0 ? 1 : 0,
                             .slots = limits.concurrent > 0 ? 1 : 0};
  const auto by = hub_.deadline();
  for (bool was_answered = false;; was_answered = true) {
    const auto got = key_->enter(limits, cell_now_ns());
    has_slot_ = got.answer == lease_answer::granted && limits.concurrent > 0;
    if (got.answer == lease_answer::granted && got.is_low && hub_.up()) hub_.nudge(key_);
    if (got.answer != lease_answer::ask) co_return to_verdict(got);
    if (!hub_.up()) co_return verdict{answer::away};
    const bool answered = co_await hub_.wait(key_, lacking, by);
    if (!answered) co_return unanswered(was_answered, answer::no_request);
  }
}

task<shared_share::verdict> shared_share::take_tokens(const auth::key_limits& limits, std::int64_t units) {
  const shared::lack lacking{.tokens = units};
  const auto by = hub_.deadline();
  for (bool was_answered = false;; was_answered = true) {
    const auto got = key_->take_tokens(limits, units, cell_now_ns());
    if (got.answer == lease_answer::granted) tokens_ = got.got;
    if (got.answer == lease_answer::granted && got.is_low && hub_.up()) hub_.nudge(key_);
    if (got.answer != lease_answer::ask) co_return to_verdict(got);
    if (!hub_.up()) co_return verdict{answer::away};
    const bool answered = co_await hub_.wait(key_, lacking, by);
    if (!answered) co_return unanswered(was_answered, answer::no_tokens);
  }
}

void shared_share::settle_tokens(std::int64_t used) {
  if (tokens_) key_->settle_tokens(*tokens_, used, cell_now_ns());
  tokens_.reset();
}

task<key_lease::money_verdict> shared_share::reserve(ledger::ledger& money, const auth::key_limits& limits,
                                                     policy::limits::usd_nano amount,
                                                     std::string_view request_id,
                                                     ledger::copyable_done committed) {
  const shared::lack lacking{.money = amount};
  const auto by = hub_.deadline();
  for (;;) {
    auto got = key_->reserve(money, limits, amount, request_id, committed, cell_now_ns());
    const auto* reserved = std::get_if<key_lease::reserved>(&got);
    if (reserved != nullptr && reserved->is_low && hub_.up()) hub_.nudge(key_);
    if (!std::holds_alternative<key_lease::ask>(got)) co_return got;
    if (!hub_.up()) co_return key_lease::money_verdict(key_lease::away{});
    const bool answered = co_await hub_.wait(key_, lacking, by);
    if (!answered) co_return key_lease::money_verdict(key_lease::away{});
  }
}

policy::limits::level shared_share::look_requests(const auth::key_limits& limits) const {
  return key_->look_requests(limits, cell_now_ns());
}

policy::limits::level shared_share::look_tokens(const auth::key_limits& limits) const {
  return key_->look_tokens(limits, cell_now_ns());
}

}  // namespace weir::gateway::limits
