#include "gateway/limits/key_writer.hpp"

#include <future>
#include <utility>

namespace weir::gateway::limits {

namespace {

constexpr std::int64_t k_busy_retry_ms = 1000;
constexpr std::int64_t k_ledger_retry_ms = 5000;  // a full disk that got space again is noticed by then

error busy() {
  return {errc::overloaded, "too many changes of keys wait; retry in a moment", {}, k_busy_retry_ms};
}

}  // namespace

error to_error(ledger::fault why) {
  switch (why) {
    case ledger::fault::overloaded:
      return {errc::overloaded, "too much waits for the ledger; retry in a moment", {}, k_busy_retry_ms};
    case ledger::fault::full_disk:
      return {errc::ledger_unavailable,
              "the ledger's disk is full: nothing was changed; make room and retry",
              {},
              k_ledger_retry_ms};
    case ledger::fault::failed:
      return {errc::ledger_unavailable,
              "the ledger failed and takes nothing until a restart; its log says why",
              {},
              k_ledger_retry_ms};
    case ledger::fault::stopped:
      return {errc::draining, "shutting down; nothing was changed"};
    case ledger::fault::invalid:
      return {errc::conflict, "the ledger does not take this: a revoked key stays revoked"};
  }
  return {errc::internal, "the ledger does not take this"};
}

key_writer::key_writer(auth::key_ring& ring, ledger::ledger& money)
    : ring_(ring), money_(money), thread_([this] { run(); }) {}

key_writer::~key_writer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
  for (auto& waiting : jobs_) waiting.done(std::unexpected(to_error(ledger::fault::stopped)));
}

void key_writer::submit(plan make, answer done) {
  bool taken = false;
  {
    const std::lock_guard lock(mutex_);
    taken = jobs_.size() < k_changes_waiting_max;
    const auto begin_by = std::chrono::steady_clock::now() + k_change_wait;
    if (taken) jobs_.push_back({std::move(make), std::move(done), begin_by});
  }
  if (taken) {
    wake_.notify_one();
  } else {
    done(std::unexpected(busy()));
  }
}

void key_writer::run() {
  for (;;) {
    job next;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
      if (stopping_) return;
      next = std::move(jobs_.front());
      jobs_.pop_front();
    }
    next.done(carry_out(next));
  }
}

result<key_change> key_writer::carry_out(job& next) {
  if (std::chrono::steady_clock::now() > next.begin_by) return std::unexpected(busy());
  auto change = next.make();
  if (!change) return change;
  const auto committed = commit(*change);
  if (!committed) {
    ring_.unclaim();
    return std::unexpected(to_error(committed.error()));
  }
  ring_.set_made(money_.keys(), money_.tenants());
  return change;
}

std::expected<void, ledger::fault> key_writer::commit(const key_change& change) {
  std::promise<std::expected<void, ledger::fault>> promise;
  auto told = promise.get_future();
  ledger::done done = [held = std::move(promise)](std::expected<void, ledger::fault> outcome) mutable {
    held.set_value(outcome);
  };
  std::expected<void, ledger::fault> taken;
  if (const auto* key = std::get_if<auth::key_record>(&change)) {
    taken = money_.put(*key, std::move(done));
  } else if (const auto* tenant = std::get_if<auth::tenant_record>(&change)) {
    taken = money_.put(*tenant, std::move(done));
  } else {
    taken = money_.erase_key(std::get<erased_key>(change).id, std::move(done));
  }
  if (!taken) return taken;
  return told.get();
}

}  // namespace weir::gateway::limits
