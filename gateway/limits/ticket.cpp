#include "gateway/limits/ticket.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <limits>
#include <utility>

#include "gateway/auth/authenticate.hpp"
#include "gateway/awaited.hpp"
#include "gateway/limits/rate_headers.hpp"
#include "gateway/limits/shared_share.hpp"

namespace weir::gateway::limits {

namespace {

using policy::limits::rate;

constexpr std::int64_t k_ns_per_ms = 1'000'000;
constexpr std::int64_t k_ms_per_s = 1000;
constexpr std::int64_t k_busy_retry_ms = 1000;    // when one of the running ones may have ended
constexpr std::int64_t k_shared_retry_ms = 1000;  // when a store that was away for a moment is back
constexpr std::int64_t k_ledger_retry_ms = 5000;  // a full disk that got space again is noticed by then

rate per_minute(std::int64_t limit) noexcept {
  return {.limit = std::min(limit, policy::limits::k_rate_max)};
}

std::int64_t to_ms(std::int64_t ns) noexcept {
  return (ns + k_ns_per_ms - 1) / k_ns_per_ms;
}

std::string usd(policy::limits::usd_nano amount) {
  return fmt::format("${:.4f}", policy::limits::to_usd(amount));
}

error refused(errc code, std::string message, std::int64_t retry_ms = 0) {
  return {code, std::move(message), {}, retry_ms};
}

error to_error(const ledger::exhausted& e) {
  const std::string_view window = e.month ? "month" : "day";
  if (e.never_fits) {
    return refused(
        errc::limit_too_small,
        fmt::format("this request may cost up to {}, more than this key's whole budget of {} a {}; "
                    "ask for fewer max_tokens or a shorter prompt",
                    usd(e.wanted), usd(e.limit), window));
  }
  return refused(
      errc::budget_exhausted,
      fmt::format("the budget of this key, {} a {}, has no room for a request of up to {}: {} spent, "
                  "{} reserved by running requests; it resets in {} s",
                  usd(e.limit), window, usd(e.wanted), usd(e.spent), usd(e.reserved), e.resets_in_s),
      e.resets_in_s * k_ms_per_s);
}

error ledger_away() {
  return refused(errc::ledger_unavailable,
                 "budgets cannot be kept right now, so that keys with a budget wait; retry in a moment",
                 k_ledger_retry_ms);
}

error to_error(const ledger::refusal& why) {
  if (const auto* e = std::get_if<ledger::exhausted>(&why)) return to_error(*e);
  return ledger_away();
}

error limits_away() {
  return refused(errc::ledger_unavailable,
                 "limits cannot be checked right now, so that keys with limits wait; retry in a moment",
                 k_shared_retry_ms);
}

error too_many_at_once(const auth::key_limits& limits) {
  return refused(errc::requests_limited,
                 fmt::format("this key may run {} requests at once, and they all run", limits.concurrent),
                 k_busy_retry_ms);
}

error too_many_requests(const auth::key_limits& limits, std::int64_t retry_ns) {
  return refused(errc::requests_limited,
                 fmt::format("this key may send {} requests a minute; the next one passes in {}",
                             limits.requests_per_min, go_duration(to_ms(retry_ns) * k_ns_per_ms)),
                 to_ms(retry_ns));
}

error too_many_tokens(const auth::key_limits& limits, std::int64_t units, std::int64_t retry_ns) {
  return refused(errc::tokens_limited,
                 fmt::format("this key may use {} tokens a minute and this request up to {}; it passes in {}",
                             limits.tokens_per_min, units, go_duration(to_ms(retry_ns) * k_ns_per_ms)),
                 to_ms(retry_ns));
}

}  // namespace

policy::limits::usd_nano dearest_price(const need& most) noexcept {
  policy::limits::usd_nano amount = 0;
  for (const auto& target : most.dearest) {
    amount = std::max(
        amount, policy::limits::price_at_most(most.prompt_tokens, most.output_tokens, target.tiers).amount);
  }
  return amount;
}

// Reaches the exchange only while it lives, and only on its thread.
struct ticket::revocation {
  http::exchange* exchange;
};

ticket::ticket(const auth::identity& caller, ledger::ledger* money, shared::hub* hub,
               http::exchange& exchange, io_executor executor)
    : terms_(*caller.terms),
      account_(caller.account.get()),
      money_(money),
      executor_(executor),
      request_id_(exchange.request_id()),
      revocation_(account_ == nullptr ? nullptr : std::make_shared<revocation>(&exchange)) {
  if (account_ != nullptr && hub != nullptr) {
    shared_ = std::make_unique<shared_share>(*hub, account_->id());
  }
}

ticket::~ticket() {
  if (revocation_) revocation_->exchange = nullptr;
  if (entered_) account_->leave(*this);
  settle_tokens(earlier_tokens_ + used(uses_[0]).total() + used(uses_[1]).total());
  settle_money();
}

void ticket::end_soon() noexcept {
  asio::post(executor_, [held = revocation_] {
    if (held->exchange != nullptr)
      held->exchange->cut({errc::invalid_key, std::string(auth::k_not_valid), {}});
  });
}

result<void> ticket::enter() {
  if (account_->enter(*this, terms_.limits.concurrent)) {
    entered_ = true;
    return {};
  }
  if (account_->revoked()) return fail(errc::invalid_key, std::string(auth::k_not_valid));
  return std::unexpected(too_many_at_once(terms_.limits));
}

// Whether the store's leases have decided; false: this gateway's cells do.
task<result<bool>> ticket::take_shared_request() {
  const auto& limits = terms_.limits;
  if (!shared_ || (limits.requests_per_min == 0 && limits.concurrent == 0)) co_return false;
  const auto got = co_await shared_->enter(limits);
  switch (got.what) {
    case shared_share::answer::granted:
      co_return true;
    case shared_share::answer::no_slot:
      co_return std::unexpected(too_many_at_once(limits));
    case shared_share::answer::away:
      if (shared_->refuses_when_down()) co_return std::unexpected(limits_away());
      co_return false;
    default:
      if (limits.requests_per_min > 0) request_level_ = shared_->look_requests(limits);
      co_return std::unexpected(too_many_requests(limits, got.retry_ns));
  }
}

task<result<void>> ticket::take_request() {
  if (account_ == nullptr) co_return result<void>{};
  if (auto entered = enter(); !entered) co_return entered;
  const result<bool> shared = co_await take_shared_request();
  if (!shared) co_return std::unexpected(shared.error());
  const auto& limits = terms_.limits;
  if (limits.requests_per_min == 0) co_return result<void>{};
  const auto got = account_->requests.take(per_minute(limits.requests_per_min), 1, cell_now_ns());
  request_level_ = *shared ? shared_->look_requests(limits) : got.after;
  if (got.allowed || *shared) co_return result<void>{};
  co_return std::unexpected(too_many_requests(limits, got.retry_ns));
}

task<result<bool>> ticket::take_shared_tokens(std::int64_t units) {
  if (!shared_) co_return false;
  const auto& limits = terms_.limits;
  const auto got = co_await shared_->take_tokens(limits, units);
  if (got.what == shared_share::answer::granted) co_return true;
  if (got.what == shared_share::answer::away) {
    if (shared_->refuses_when_down()) co_return std::unexpected(limits_away());
    co_return false;
  }
  token_level_ = shared_->look_tokens(limits);
  co_return std::unexpected(too_many_tokens(limits, units, got.retry_ns));
}

task<result<void>> ticket::take_of_minute(std::int64_t units) {
  const std::int64_t limit = terms_.limits.tokens_per_min;
  if (limit == 0) co_return result<void>{};
  const auto how = per_minute(limit);
  if (!policy::limits::fits(how, units)) {
    co_return std::unexpected(refused(
        errc::limit_too_small,
        fmt::format("this request may use {} tokens, more than the {} that this key may use in a whole "
                    "minute; ask for fewer max_tokens or send a shorter prompt",
                    units, limit)));
  }
  const result<bool> shared = co_await take_shared_tokens(units);
  if (!shared) co_return std::unexpected(shared.error());
  const auto got = account_->tokens.take(how, units, cell_now_ns());
  if (got.allowed) tokens_ = got.got;
  token_level_ = *shared ? shared_->look_tokens(terms_.limits) : got.after;
  if (got.allowed || *shared) co_return result<void>{};
  co_return std::unexpected(too_many_tokens(terms_.limits, units, got.retry_ns));
}

task<result<void>> ticket::take_tokens(const need& most) {
  prompt_tokens_ = most.prompt_tokens;
  output_tokens_ = most.output_tokens;
  if (account_ == nullptr) co_return result<void>{};
  result<void> taken = co_await take_of_minute(most.prompt_tokens + most.output_tokens);
  if (taken && has_budget()) taken = co_await reserve_money(dearest_price(most));
  if (!taken && most.estimate && taken.error().code != errc::ledger_unavailable) {
    taken.error().message += "; the gateway has no tokenizer for this model and counts a token for each byte";
  }
  co_return taken;
}

task<result<ledger::reservation_id>> ticket::reserve(policy::limits::usd_nano amount,
                                                     ledger::copyable_done committed) {
  if (!shared_) {
    auto got = money_->reserve(account_->id(), terms_.limits, amount, request_id_, std::move(committed));
    if (!got) co_return std::unexpected(to_error(got.error()));
    co_return *got;
  }
  using shared::key_lease;
  const auto got =
      co_await shared_->reserve(*money_, terms_.limits, amount, request_id_, std::move(committed));
  if (const auto* reserved = std::get_if<key_lease::reserved>(&got)) co_return reserved->id;
  if (const auto* e = std::get_if<ledger::exhausted>(&got)) co_return std::unexpected(to_error(*e));
  error e = ledger_away();
  if (!std::holds_alternative<ledger::fault>(got)) e.retry_after_ms = k_shared_retry_ms;
  co_return std::unexpected(std::move(e));
}

task<result<void>> ticket::reserve_money(policy::limits::usd_nano amount) {
  if (money_ == nullptr) co_return std::unexpected(ledger_away());
  awaited<std::expected<void, ledger::fault>> committed(executor_);
  result<ledger::reservation_id> reserved = co_await reserve(amount, committed.giver());
  if (!reserved) co_return std::unexpected(std::move(reserved.error()));
  reservation_ = *reserved;
  reserved_ = amount;
  const auto outcome = co_await committed.wait(k_commit_wait);
  if (!outcome || !*outcome) co_return std::unexpected(ledger_away());
  co_return result<void>{};
}

void ticket::settle_money() noexcept {
  if (!reservation_) return;
  const auto spent = cost().amount;
  money_->settle(*std::exchange(reservation_, std::nullopt), spent - settled_);
  settled_ = spent;
  if (shared_) shared_->settled_money();
}

task<result<void>> ticket::renew() {
  if (!has_budget() || (reservation_ && cost().amount == settled_)) co_return result<void>{};
  settle_money();
  result<void> again = co_await reserve_money(reserved_);
  co_return again;
}

bool* ticket::sending(const target_prices& prices, course on) noexcept {
  auto& use = use_of(on);
  earlier_tokens_ += used(use).total();
  add_cost(use, earlier_cost_);
  use = {.prices = &prices};
  return &use.sent;
}

void ticket::note(const api::token_usage& usage, const api::shown_output& shown, course on) noexcept {
  use_of(on).reported = usage;
  use_of(on).shown = shown;
}

policy::limits::usage ticket::used(const target_use& at) const noexcept {
  if (!at.sent) return {};
  policy::limits::reported_usage out{.prompt_tokens = at.reported.prompt_tokens,
                                     .cache_read_tokens = at.reported.cached_tokens,
                                     .cache_write_tokens = at.reported.cache_write_tokens,
                                     .completion_tokens = at.reported.completion_tokens};
  const bool silent = out.prompt_tokens <= 0 && out.completion_tokens <= 0;
  if (silent || out.prompt_tokens < 0) {
    out.prompt_tokens = prompt_tokens_;
    out.cache_read_tokens = out.cache_write_tokens = -1;
  }
  if (silent || out.completion_tokens < 0) {
    out.completion_tokens = std::max(at.shown.events, std::min(at.shown.content_bytes, output_tokens_));
  }
  return policy::limits::split(out, at.prices->counted);
}

void ticket::add_cost(const target_use& at, policy::limits::charge& to) const noexcept {
  if (!at.sent) return;
  const auto more = policy::limits::price(used(at), at.prices->tiers);
  constexpr auto most = std::numeric_limits<policy::limits::usd_nano>::max();
  to.amount = more.amount > most - to.amount ? most : more.amount + to.amount;
  to.unpriced = to.unpriced || more.unpriced;
}

policy::limits::charge ticket::cost() const noexcept {
  auto out = earlier_cost_;
  for (const auto& use : uses_) add_cost(use, out);
  return out;
}

void ticket::settle_tokens(std::int64_t used_tokens) noexcept {
  if (shared_) shared_->settle_tokens(used_tokens);
  if (!tokens_) return;
  const auto how = per_minute(terms_.limits.tokens_per_min);
  if (used_tokens < tokens_->units) {
    account_->tokens.give_back(how, *tokens_, tokens_->units - used_tokens, cell_now_ns());
  } else if (used_tokens > tokens_->units) {
    account_->tokens.charge(how, used_tokens - tokens_->units, cell_now_ns());
  }
}

http::header_list ticket::headers() const {
  http::header_list out;
  if (request_level_) {
    append_rate_headers(out, dimension::requests, terms_.limits.requests_per_min, *request_level_);
  }
  if (token_level_) {
    append_rate_headers(out, dimension::tokens, terms_.limits.tokens_per_min, *token_level_);
  }
  return out;
}

}  // namespace weir::gateway::limits
