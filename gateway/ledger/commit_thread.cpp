#include <algorithm>
#include <exception>
#include <unordered_map>
#include <utility>

#include "gateway/ledger/ledger_impl.hpp"

namespace weir::gateway::ledger {

namespace {

constexpr std::int64_t k_retry_growth_max = 16;

template <class... F>
struct overloaded : F... {
  using F::operator()...;
};

done callback_of(operation& any) {
  return std::visit(
      overloaded{[](void_operation&) { return done(); }, [](traffic_operation&) { return done(); },
                 [](add_pair_operation&) { return done(); },
                 [](reserve_operation& op) { return std::move(op.ok); },
                 [](auto& op) { return std::move(op.committed); }},
      any);
}

bool is_refused(const operation& any) {
  const auto* put = std::get_if<put_key_operation>(&any);
  return put != nullptr && put->refused;
}

// Undoes in the book that is ahead of the disk what these operations did and will not do, and tells their
// callers. What must still reach the disk stays: settlements, and that ids are void.
class undo final {
 public:
  undo(book& live, fault reason, answers& told) : live_(live), reason_(reason), told_(told) {}

  std::vector<operation> of(std::vector<operation> operations) {
    for (auto& any : operations) {
      std::visit([this](auto& op) { take(op); }, any);
    }
    return std::move(kept_);
  }

 private:
  void take(reserve_operation& op) {
    if (live_.end(op.id, 0, ending::voided) == nullptr) settled_early_.emplace(op.id, op.reservation);
    told_.add(std::move(op.ok), std::unexpected(reason_));
    kept_.push_back(void_operation{op.id});
  }
  void take(settle_operation& op) {
    const auto dead = settled_early_.find(op.id);
    if (dead == settled_early_.end()) {
      kept_.push_back(std::move(op));
      return;
    }
    live_.take_back(*dead->second, op.actual);
    told_.add(std::move(op.committed), {});
  }
  void take(void_operation& op) { kept_.push_back(op); }
  void take(traffic_operation& op) { kept_.push_back(std::move(op)); }
  void take(add_pair_operation&) {}
  void take(auto& put) { told_.add(std::move(put.committed), std::unexpected(reason_)); }

  book& live_;
  fault reason_;
  answers& told_;
  std::vector<operation> kept_;
  // Ended by its caller before its reserve was answered.
  std::unordered_map<reservation_id, reservation_ref> settled_early_;
};

}  // namespace

bool ledger::impl::take() {
  std::unique_lock lock(mutex);
  if (retry_ms > 0) {
    wake.wait_for(lock, std::chrono::milliseconds(retry_ms), [this] { return stopping; });
  } else {
    wait_for_work(lock);
  }
  std::move(queue.begin(), queue.end(), std::back_inserter(retained));
  queue.clear();
  counted = 0;
  urgent = false;
  take_pairs();
  return !stopping;
}

void ledger::impl::wait_for_work(std::unique_lock<std::mutex>& lock) {
  const auto pairs_ready = [this] {
    return pairs_waiting.size() >= k_pairs_per_batch || (!pairs_waiting.empty() && clock::now() >= pairs_due);
  };
  while (!stopping && queue.empty() && !pairs_ready()) {
    if (pairs_waiting.empty()) {
      wake.wait(lock);
    } else {
      wake.wait_until(lock, pairs_due);
    }
  }
  if (queue.empty()) return;
  const auto until = oldest + std::chrono::milliseconds(options.settle_linger_ms);
  wake.wait_until(lock, until,
                  [this] { return stopping || urgent || queue.size() >= k_settlements_lingering_max; });
}

void ledger::impl::take_pairs() {
  durable.keep_pairs(pairs_kept);
  const auto count = stopping ? pairs_waiting.size() : std::min(pairs_waiting.size(), k_pairs_per_batch);
  for (std::size_t i = 0; i < count; ++i) {
    retained.push_back(add_pair_operation{.record = std::move(pairs_waiting.front())});
    pairs_waiting.pop_front();
  }
  pairs_due = clock::now() + std::chrono::milliseconds(options.pair_linger_ms);
}

void ledger::impl::run() {
  bool last = false;
  while (!last) {
    const bool stop = !take();
    if (state.reason == fault::failed) {  // only this thread writes it
      answer_all(fault::failed);
    } else if (retry_ms == 0 || reopen()) {
      commit();
    }
    const std::lock_guard lock(mutex);
    last = stop && (queue.empty() || state.reason);  // callbacks settle
  }
  take();
  answer_all(state.reason.value_or(fault::stopped));
}

void ledger::impl::commit() {
  if (retained.empty() && retry_ms == 0) return;
  try {
    const auto start = clock::now();
    const auto changes = durable.write(retained, labels.now());
    if (auto written = disk->write(changes, durable.on_disk().sums.state().commit); !written) {
      fail(written.error());
      return;
    }
    publish(retained.size(), clock::now() - start);
  } catch (const std::exception& error) {
    fail({.reason = fault::failed,
          .text = std::string("the ledger in ") + options.folder.string() + " failed (" + error.what() +
                  "): restart the gateway"});
    return;
  }
  answers told;
  for (auto& any : retained) {
    const bool refused = is_refused(any);
    told.add(callback_of(any), refused ? std::expected<void, fault>(std::unexpected(fault::invalid))
                                       : std::expected<void, fault>());
  }
  retained.clear();
  told.call();
}

void ledger::impl::publish_records(const operation& any) {
  std::visit(overloaded{[this](const put_key_operation& op) {
                          if (!op.refused) keys.insert_or_assign(op.record.id, op.record);
                        },
                        [this](const put_tenant_operation& op) {
                          tenants.insert_or_assign(op.record.name, op.record);
                        },
                        [this](const erase_key_operation& op) { keys.erase(op.id); },
                        [this](const add_pair_operation& op) {
                          pairs.push_back({op.place, op.record});
                        },
                        [](const auto&) {}},
             any);
}

void ledger::impl::publish(std::size_t operations, clock::duration took) {
  const auto now = labels.now();
  const std::lock_guard lock(mutex);
  for (const auto& any : retained) publish_records(any);
  const auto& kept = durable.on_disk().pairs;
  while (!pairs.empty() && (kept.empty() || pairs.front().place < kept.front().place)) pairs.pop_front();
  ++counts.commits;
  counts.operations += operations;
  counts.last_commit_us = std::chrono::duration_cast<std::chrono::microseconds>(took).count();
  if (now.day != swept) live.drop_old(now);
  swept = now.day;
  retry_ms = 0;
  state = {};
}

void ledger::impl::fail(const store_error& error) {
  answers told;
  {
    const std::lock_guard lock(mutex);
    std::move(queue.begin(), queue.end(), std::back_inserter(retained));
    queue.clear();
    counted = 0;
    urgent = false;
    if (error.reason == fault::full_disk && retry_ms == 0) ++counts.full_disk;
    state = {.reason = error.reason, .detail = error.text};
    const auto lost = std::count_if(retained.begin(), retained.end(), [](const operation& any) {
      return std::holds_alternative<add_pair_operation>(any);
    });
    counts.pairs_dropped += static_cast<std::uint64_t>(lost) + pairs_waiting.size();
    pairs_waiting.clear();
    retained = undo(live, error.reason, told).of(std::move(retained));
  }
  const auto longest_ms = options.full_disk_retry_ms * k_retry_growth_max;
  retry_ms = retry_ms == 0 ? options.full_disk_retry_ms : std::min(retry_ms * 2, longest_ms);
  told.call();
  if (error.reason == fault::failed) answer_all(fault::failed);
}

// What the full disk kept, and what this thread knows, meet again: the first batch after it makes them agree.
bool ledger::impl::reopen() {
  auto loaded = disk->reopen();
  if (!loaded) {
    fail(loaded.error());
    return false;
  }
  loaded->traffic.clear();  // memory is ahead of it
  durable = journal(std::move(*loaded));
  durable.restore_records(keys, tenants);
  const std::lock_guard lock(mutex);
  pairs = durable.on_disk().pairs;
  return true;
}

void ledger::impl::answer_all(fault reason) {
  answers told;
  for (auto& any : retained) told.add(callback_of(any), std::unexpected(reason));
  retained.clear();
  told.call();
}

}  // namespace weir::gateway::ledger
