#include "gateway/shared/hub.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <random>
#include <utility>

#include "engine/text/printable.hpp"
#include "gateway/awaited.hpp"
#include "gateway/limits/account.hpp"
#include "gateway/shared/scripts.hpp"

namespace weir::gateway::shared {

namespace {

using observe::shared_failure;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds k_start_wait{1500};
constexpr milliseconds k_dial_max{1000};  // a new connection with its hello
constexpr milliseconds k_backoff_min{25};
constexpr milliseconds k_backoff_max{400};
constexpr milliseconds k_goodbye_max{500};
constexpr milliseconds k_key_backoff{400};  // of a key that is away by itself
constexpr std::size_t k_keys_per_batch = 128;
constexpr std::size_t k_why_bytes_max = 200;  // of a store's words in the log
constexpr std::string_view k_nonsense = "answers with nonsense";
constexpr int k_stale_max = 8;  // then somebody else has our name

std::string random_name() {
  std::random_device source;
  return fmt::format("{:08x}{:08x}", source(), source());
}

hub_settings named(hub_settings settings) {
  if (settings.gateway.empty()) settings.gateway = random_name();
  return settings;
}

std::string first_error(const std::vector<store_value>& replies) {
  for (const auto& r : replies) {
    if (r.is == store_value::kind::error) return r.text;
  }
  return {};
}

std::string said_of(const sync_failure& failure) {
  return failure.why == sync_failure::kind::refused ? failure.text : std::string(k_nonsense);
}

}  // namespace

hub::hub(hub_settings settings, ledger::ledger* money, observe::shared_counters counters)
    : settings_(named(std::move(settings))), money_(money), counters_(counters), backoff_(k_backoff_min) {
  context_ = {.prefix = settings_.prefix,
              .gateway = settings_.gateway,
              .lease_ms = settings_.lease_ms,
              .grace_ms = settings_.lease_ms / 2};
}

hub::~hub() {
  stop();
}

void hub::start() {
  thread_ = std::thread([this] { run(); });
  std::unique_lock lock(mutex_);
  ready_.wait_for(lock, k_start_wait, [this] { return gives_money_; });
}

void hub::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    given_up_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

key_ref hub::of(std::string_view key) {
  const std::lock_guard lock(mutex_);
  auto found = keys_.find(key);
  if (found == keys_.end()) {
    found = keys_.emplace(std::string(key), std::make_shared<key_lease>(std::string(key), settings_.lease_ms))
                .first;
  }
  return found->second;
}

link_time hub::deadline() const {
  return steady_clock::now() + milliseconds(settings_.timeout_ms);
}

task<bool> hub::wait(key_ref key, lack what, link_time deadline) {
  awaited<bool> answered(co_await asio::this_coro::executor);
  key->wait(answered.giver(), what);
  counters_.waits->Increment();
  // It may have gone down before it could see who waits.
  if (!up() || key->is_away(limits::cell_now_ns())) co_return false;
  nudge(key);
  const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
  const auto outcome = co_await answered.wait(left);
  if (!outcome) counters_.failures[static_cast<std::size_t>(shared_failure::wait)]->Increment();
  co_return outcome.value_or(false);
}

void hub::nudge(const key_ref& key) {
  if (!key->enqueue()) return;
  {
    const std::lock_guard lock(mutex_);
    dirty_.push_back(key);
    if (dirty_.size() > 1) return;
  }
  wake_.notify_one();
}

std::vector<key_ref> hub::all_keys() const {
  const std::lock_guard lock(mutex_);
  std::vector<key_ref> out;
  out.reserve(keys_.size());
  for (const auto& [id, key] : keys_) out.push_back(key);
  return out;
}

void hub::run() {
  for (;;) {
    if (!link_ && !connect()) {
      if (!rest()) return;
      continue;
    }
    bool beat = false;
    {
      std::unique_lock lock(mutex_);
      const auto until = std::min(next_beat_, gives_money_ ? next_beat_ : money_from_);
      wake_.wait_until(lock, until, [this] { return stopping_ || !dirty_.empty(); });
      if (stopping_) break;
      if (steady_clock::now() >= money_from_ && !std::exchange(gives_money_, true)) ready_.notify_all();
      beat = steady_clock::now() >= next_beat_;
    }
    const milliseconds beat_every(settings_.lease_ms / 4);
    if (beat) next_beat_ = steady_clock::now() + beat_every;
    if (auto done = sync(next_keys(beat)); !done) {
      go_down(shared_failure::command, done.error());
      if (!rest()) return;
      continue;
    }
    if (steady_clock::now() - up_since_ >= beat_every) was_of_use();
  }
  given_up_ = false;
  say_goodbye();
}

// Before the next attempt; false: the hub stops.
bool hub::rest() {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, backoff_, [this] { return stopping_.load(); });
  backoff_ = std::min(backoff_ * 2, k_backoff_max);
  return !stopping_;
}

std::vector<key_ref> hub::next_keys(bool all) {
  std::vector<key_ref> out;
  {
    const std::lock_guard lock(mutex_);
    out.swap(dirty_);
  }
  for (const auto& key : out) key->dequeue();
  if (all) out = all_keys();
  const auto now = limits::cell_now_ns();
  std::erase_if(out, [now](const key_ref& key) {
    const bool away = key->is_away(now);
    if (away) key->wake_all(false);
    return away || !key->has_news(now);
  });
  return out;
}

bool hub::connect() {
  const auto by = steady_clock::now() + k_dial_max;
  auto dialled = store_link::dial(settings_.at, by, given_up_);
  std::string why = dialled ? "" : dialled.error();
  if (dialled) {
    link_ = std::move(*dialled);
    std::vector<std::vector<std::string>> first;
    if (!settings_.password.empty()) {
      first.push_back({"AUTH"});
      if (!settings_.user.empty()) first.back().push_back(settings_.user);
      first.back().push_back(settings_.password);
    }
    if (settings_.database != 0) first.push_back({"SELECT", std::to_string(settings_.database)});
    first.push_back({"SCRIPT", "LOAD", std::string(k_sync_script)});
    const auto replies = link_->exchange(first, by);
    why = replies ? first_error(*replies) : replies.error();
    if (why.empty()) {
      digest_ = replies->back().text;
      if (auto greeted = hello({}, by); !greeted) why = greeted.error();
    }
    if (why.empty()) {
      if (auto obeyed = probe(); !obeyed) why = obeyed.error();
    }
  }
  if (!why.empty()) {
    go_down(shared_failure::connect, why);
    return false;
  }
  go_up();
  return true;
}

std::expected<void, std::string> hub::hello(const std::string& broken_epoch, link_time by) {
  const std::vector<std::string> command{"EVAL",
                                         std::string(k_hello_script),
                                         "1",
                                         settings_.prefix + "site",
                                         settings_.gateway,
                                         broken_epoch,
                                         random_name()};
  counters_.commands->Increment();
  const auto replies = link_->exchange({&command, 1}, by);
  if (!replies) return std::unexpected(replies.error());
  const auto& reply = replies->front();
  if (reply.is == store_value::kind::error) return std::unexpected(reply.text);
  if (reply.list.size() != 3 || reply.list[2].integer < 0) return std::unexpected(std::string(k_nonsense));
  context_.session = reply.list[1].text;
  const auto& epoch = reply.list[0].text;
  if (epoch == context_.epoch) return {};
  if (!context_.epoch.empty()) {
    counters_.epochs->Increment();
    spdlog::warn("shared limits: {}:{} has lost what it knew; rates start anew, budgets are made known again",
                 settings_.at.host, settings_.at.port);
  }
  const auto left_ms = context_.grace_ms - std::min(context_.grace_ms, reply.list[2].integer);
  money_from_ = steady_clock::now() + milliseconds(left_ms);
  context_.epoch = epoch;
  if (money_ != nullptr) {
    for (const auto& account : money_->accounts()) of(account);
  }
  for (const auto& key : all_keys()) {
    key->store_is_new();
    nudge(key);
  }
  return {};
}

std::expected<hub::values, std::string> hub::send(const std::vector<asked>& batch) {
  std::vector<std::vector<std::string>> commands;
  commands.reserve(batch.size());
  for (const auto& one : batch) commands.push_back(sync_command(context_, one.order, "EVALSHA", digest_));
  counters_.commands->Increment(static_cast<double>(commands.size()));
  const auto by = steady_clock::now() + milliseconds(settings_.timeout_ms);
  auto replies = link_->exchange(commands, by);
  for (std::size_t i = 0; replies && i < batch.size(); ++i) {
    if (!(*replies)[i].text.starts_with("NOSCRIPT")) continue;
    const auto whole = sync_command(context_, batch[i].order, "EVAL", k_sync_script);
    counters_.commands->Increment();
    auto again = link_->exchange({&whole, 1}, by);
    if (!again) return again;
    (*replies)[i] = std::move(again->front());
  }
  return replies;
}

std::expected<void, std::string> hub::sync(const std::vector<key_ref>& keys) {
  for (std::size_t at = 0; at < keys.size(); at += k_keys_per_batch) {
    std::vector<asked> batch;
    for (std::size_t i = at; i < std::min(keys.size(), at + k_keys_per_batch); ++i) {
      batch.push_back({keys[i], keys[i]->next_order(money_, limits::cell_now_ns())});
    }
    const auto sent_ns = limits::cell_now_ns();
    const auto replies = send(batch);
    std::vector<refusal> refused;
    std::optional<std::string> greet;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const auto got = replies ? read_grant((*replies)[i]) : std::unexpected(sync_failure{});
      if (got) {
        was_obeyed(batch[i], *got, sent_ns);
        continue;
      }
      batch[i].key->lost();
      using kind = sync_failure::kind;
      const auto& failure = got.error();
      if (failure.why == kind::stale || failure.why == kind::lost) {
        greet = failure.why == kind::lost ? context_.epoch : greet.value_or("");
        nudge(batch[i].key);
      } else {
        refused.push_back({batch[i].key, said_of(failure)});
      }
    }
    if (!replies) return std::unexpected(replies.error());
    if (auto others = set_away(refused); !others) return others;
    if (!greet) continue;
    if (++stale_in_a_row_ > k_stale_max) return std::unexpected("another gateway has this one's ledger");
    const auto by = steady_clock::now() + milliseconds(settings_.timeout_ms);
    if (auto greeted = hello(*greet, by); !greeted) return greeted;
  }
  return {};
}

void hub::was_obeyed(const asked& order, const key_grant& got, std::int64_t sent_ns) {
  stale_in_a_row_ = 0;
  count(got, order.order);
  order.key->apply(order.order, got, sent_ns, limits::cell_now_ns());
  was_of_use();
  if (away_.erase(order.key) > 0) {
    spdlog::info("shared limits: {}:{} takes key '{}' again", settings_.at.host, settings_.at.port,
                 order.key->id());
  }
}

// Whether the store obeys at all.
std::expected<void, std::string> hub::probe() {
  const auto command = sync_command(context_, probe_order(), "EVALSHA", digest_);
  counters_.commands->Increment();
  const auto replies =
      link_->exchange({&command, 1}, steady_clock::now() + milliseconds(settings_.timeout_ms));
  if (!replies) return std::unexpected(replies.error());
  const auto got = read_grant(replies->front());
  if (got || got.error().why == sync_failure::kind::stale) return {};
  return std::unexpected(said_of(got.error()));
}

// The error: it is not these keys, but the store.
std::expected<void, std::string> hub::set_away(const std::vector<refusal>& refused) {
  if (refused.empty()) return {};
  if (auto others = probe(); !others) return others;
  const auto until_ns = limits::cell_now_ns() + std::chrono::nanoseconds(k_key_backoff).count();
  for (const auto& [key, why] : refused) {
    counters_.failures[static_cast<std::size_t>(shared_failure::command)]->Increment();
    key->set_away(until_ns);
    key->wake_all(false);
    if (!away_.insert(key).second) continue;
    spdlog::error("shared limits: {}:{}: key '{}': {}; it alone counts as away", settings_.at.host,
                  settings_.at.port, key->id(), engine::text::printable(why, k_why_bytes_max));
  }
  return {};
}

void hub::count(const key_grant& got, const key_order& order) {
  const auto& window = order.limits.usd_per_day > 0 ? got.day : got.month;
  const auto& said = order.limits.usd_per_day > 0 ? order.day : order.month;
  const auto money = static_cast<double>(std::max<usd_nano>(0, window.claim - said.claim.hold));
  const std::array<double, observe::k_leased_what.size()> units{
      static_cast<double>(got.requests.units), static_cast<double>(got.tokens.units),
      money / static_cast<double>(policy::limits::k_usd)};
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (units[i] > 0) counters_.leased[i]->Increment(units[i]);
  }
}

void hub::go_up() {
  next_beat_ = up_since_ = steady_clock::now();
  up_.store(true, std::memory_order_relaxed);
  counters_.up->Set(1);
  if (!said_down_) was_of_use();
}

void hub::was_of_use() {
  backoff_ = k_backoff_min;
  said_down_ = false;
  if (std::exchange(said_up_, true)) return;
  spdlog::info("shared limits: {}:{} answers; leases of {} ms", settings_.at.host, settings_.at.port,
               settings_.lease_ms);
}

void hub::go_down(shared_failure kind, const std::string& why) {
  link_.reset();
  counters_.failures[static_cast<std::size_t>(kind)]->Increment();
  up_.store(false, std::memory_order_relaxed);
  counters_.up->Set(0);
  for (const auto& key : all_keys()) key->wake_all(false);
  if (std::exchange(said_down_, true)) return;
  said_up_ = false;
  spdlog::error("shared limits: {}:{}: {}; budgets are refused, rates {}", settings_.at.host,
                settings_.at.port, engine::text::printable(why, k_why_bytes_max),
                settings_.refuse_when_down ? "too" : "are counted by each gateway for itself");
}

void hub::say_goodbye() {
  if (!link_) return;
  const auto by = steady_clock::now() + k_goodbye_max;
  for (const auto& key : all_keys()) {
    key->end();
    if (!key->holds_any(limits::cell_now_ns())) continue;
    const std::vector<asked> one{{key, key->next_order(money_, limits::cell_now_ns())}};
    if (steady_clock::now() >= by || !send(one)) return;
  }
}

}  // namespace weir::gateway::shared
