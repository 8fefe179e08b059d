#include "gateway/ledger/ledger.hpp"

#include <algorithm>
#include <utility>

#include "gateway/ledger/ledger_impl.hpp"

namespace weir::gateway::ledger {

namespace {

constexpr std::int64_t k_seconds_per_hour = 3600;

std::vector<past_window> past_of(const window_list& windows, std::string (*label)(std::int32_t)) {
  std::vector<past_window> out;
  for (const auto& window : windows.all()) {
    if (window.spent > 0) out.push_back({.label = label(window.label), .spent = window.spent});
  }
  return out;
}

window_spend spend_of(const window_sum& window, std::string label, std::int64_t resets_in_s) {
  return {.label = std::move(label),
          .spent = window.spent,
          .reserved = saturated(window.reserved),
          .resets_in_s = resets_in_s};
}

template <class Table>
auto values_of(const Table& table) {
  std::vector<typename Table::mapped_type> out;
  out.reserve(table.size());
  for (const auto& [name, record] : table) out.push_back(record);
  return out;
}

}  // namespace

const char* describe(fault reason) noexcept {
  switch (reason) {
    case fault::overloaded:
      return "the ledger has too much waiting";
    case fault::full_disk:
      return "the ledger's disk is full";
    case fault::failed:
      return "the ledger failed and needs a restart";
    case fault::stopped:
      return "the ledger is being closed";
    case fault::invalid:
      return "not a valid entry for the ledger";
  }
  return "unknown";
}

std::expected<std::unique_ptr<ledger>, std::string> ledger::open(settings with) {
  if (!with.wall_s) with.wall_s = system_wall_s;
  if (!with.boot_s) with.boot_s = system_boot_s;
  contents on_disk;
  auto disk = store::open(
      {.folder = with.folder, .env = with.env, .write_buffer_bytes = with.write_buffer_bytes}, on_disk);
  if (!disk) return std::unexpected(std::move(disk.error().text));
  label_clock labels(with.wall_s, with.boot_s, on_disk.sums.state().clock_s);
  recovery found;
  found.clock_behind_s = labels.behind_s();
  journal first(std::move(on_disk));
  if (const auto changes = first.charge_open(labels.now(), found); !changes.empty()) {
    auto written = (*disk)->write(changes, first.on_disk().sums.state().commit);
    if (!written) return std::unexpected(std::move(written.error().text));
  }
  return std::unique_ptr<ledger>(new ledger(std::make_unique<impl>(
      std::move(with), std::move(*disk), first.on_disk(), std::move(labels), std::move(found))));
}

ledger::ledger(std::unique_ptr<impl> made) : impl_(std::move(made)) {}

ledger::~ledger() = default;

ledger::impl::impl(settings with, std::unique_ptr<store> opened, contents on_disk, label_clock clock_in,
                   recovery found_in)
    : options(std::move(with)),
      disk(std::move(opened)),
      labels(std::move(clock_in)),
      found(std::move(found_in)),
      identity(disk->identity()),
      live(on_disk.sums),
      keys(on_disk.keys),
      tenants(on_disk.tenants),
      pairs(on_disk.pairs),
      traffic(std::move(on_disk.traffic)),
      durable(std::move(on_disk)) {
  for (const auto& charge : durable.on_disk().charged) charged.push_back(charge.record);
  std::reverse(charged.begin(), charged.end());
  thread = std::thread(&impl::run, this);
}

ledger::impl::~impl() {
  {
    const std::lock_guard lock(mutex);
    stopping = true;
  }
  wake.notify_one();
  thread.join();
}

std::expected<void, fault> ledger::impl::admit() const {
  if (state.reason) return std::unexpected(*state.reason);
  if (stopping) return std::unexpected(fault::stopped);
  if (counted >= options.queue_max) return std::unexpected(fault::overloaded);
  return {};
}

void ledger::impl::enqueue(operation op, bool counts_here, bool is_urgent) {
  if (queue.empty()) oldest = clock::now();
  queue.push_back(std::move(op));
  counted += counts_here ? 1 : 0;
  const bool first_urgent = is_urgent && !urgent;
  urgent = urgent || is_urgent;
  const bool first = queue.size() == 1;
  if (first_urgent || first || queue.size() == k_settlements_lingering_max) wake.notify_one();
}

std::expected<void, fault> ledger::impl::submit(operation op) {
  const std::lock_guard lock(mutex);
  if (auto open = admit(); !open) return open;
  enqueue(std::move(op), true, true);
  return {};
}

std::expected<void, fault> ledger::put(auth::key_record record, done committed) {
  if (!is_storable(record)) return std::unexpected(fault::invalid);
  return impl_->submit(put_key_operation{.record = std::move(record), .committed = std::move(committed)});
}

std::expected<void, fault> ledger::put(auth::tenant_record record, done committed) {
  if (!is_storable(record)) return std::unexpected(fault::invalid);
  return impl_->submit(put_tenant_operation{.record = std::move(record), .committed = std::move(committed)});
}

std::expected<void, fault> ledger::erase_key(std::string id, done committed) {
  if (id.empty() || id.size() > k_account_bytes_max) return std::unexpected(fault::invalid);
  return impl_->submit(erase_key_operation{.id = std::move(id), .committed = std::move(committed)});
}

std::vector<auth::key_record> ledger::keys() const {
  const std::lock_guard lock(impl_->mutex);
  return values_of(impl_->keys);
}

std::vector<auth::tenant_record> ledger::tenants() const {
  const std::lock_guard lock(impl_->mutex);
  return values_of(impl_->tenants);
}

std::expected<reservation_id, refusal> ledger::reserve(const std::string& account,
                                                       const auth::key_limits& limits, usd_nano amount,
                                                       std::string_view request_id, done ok) {
  if (amount < 0 || account.empty() || account.size() > k_account_bytes_max) {
    return std::unexpected(fault::invalid);
  }
  auto record = std::make_shared<reservation_record>();
  record->account = account;
  record->request_id = request_id.substr(0, k_request_id_bytes_max);
  record->amount = amount;
  const auto now = impl_->labels.now();
  record->day = now.day;
  record->month = now.month;
  record->reserved_at_s = now.label_s;
  const std::lock_guard lock(impl_->mutex);
  if (auto open = impl_->admit(); !open) return std::unexpected(open.error());
  if (impl_->live.open().size() >= impl_->options.reservations_open_max) {
    return std::unexpected(fault::overloaded);
  }
  if (auto full = impl_->live.check(account, limits, amount, now)) {
    ++impl_->counts.refused_budget;
    return std::unexpected(*full);
  }
  const auto id = impl_->live.reserve(record);
  impl_->enqueue(reserve_operation{.id = id, .reservation = std::move(record), .ok = std::move(ok)}, true,
                 true);
  return id;
}

void ledger::settle(reservation_id id, usd_nano actual, done committed) {
  const std::lock_guard lock(impl_->mutex);
  const auto at = impl_->live.open().find(id);
  const bool known = at != impl_->live.open().end();
  if (known) {
    const auto reserved = at->second->amount;
    if (actual < 0) actual = reserved;
    if (actual > reserved) {
      ++impl_->counts.overruns;
      impl_->counts.overrun = add_saturating(impl_->counts.overrun, actual - reserved);
    }
    impl_->live.end(id, actual, ending::settled);
  }
  if (!known && !committed) return;
  const bool urgent = static_cast<bool>(committed);
  impl_->enqueue(settle_operation{.id = known ? id : 0, .actual = actual, .committed = std::move(committed)},
                 false, urgent);
}

std::expected<void, fault> ledger::add(policy::comparison::pair pair) {
  const bool storable = is_storable(pair);
  auto record = std::make_shared<const policy::comparison::pair>(std::move(pair));
  const std::lock_guard lock(impl_->mutex);
  const auto drop = [this](fault why) {
    ++impl_->counts.pairs_dropped;
    return std::unexpected(why);
  };
  if (!storable) return drop(fault::invalid);
  if (impl_->state.reason) return drop(*impl_->state.reason);
  if (impl_->stopping) return drop(fault::stopped);
  auto& waiting = impl_->pairs_waiting;
  if (waiting.size() >= k_pairs_waiting_max) return drop(fault::overloaded);
  if (waiting.empty()) {
    impl_->pairs_due = impl::clock::now() + std::chrono::milliseconds(impl_->options.pair_linger_ms);
  }
  waiting.push_back(std::move(record));
  if (waiting.size() == 1 || waiting.size() == k_pairs_per_batch) impl_->wake.notify_one();
  return {};
}

std::vector<stored_pair> ledger::pairs(std::optional<std::uint64_t> after, std::size_t count) const {
  const std::lock_guard lock(impl_->mutex);
  const auto& all = impl_->pairs;
  auto at = all.begin();
  if (after) {
    at = std::upper_bound(all.begin(), all.end(), *after,
                          [](std::uint64_t place, const stored_pair& p) { return place < p.place; });
  }
  const auto left = static_cast<std::size_t>(all.end() - at);
  return {at, at + static_cast<std::ptrdiff_t>(std::min(count, left))};
}

void ledger::keep_pairs(const pair_retention& how) {
  const std::lock_guard lock(impl_->mutex);
  impl_->pairs_kept = how;
  impl_->pairs_kept.count = std::min(how.count, k_pairs_kept_max);
}

std::expected<std::vector<stored_pair>, std::string> ledger::read_pairs(const std::filesystem::path& folder) {
  auto read = store::read({.folder = folder});
  if (!read) return std::unexpected(std::move(read.error().text));
  return std::vector(read->pairs.begin(), read->pairs.end());
}

spend ledger::spent(const std::string& account) const {
  const auto now = impl_->labels.now();
  window_sum day, month;
  {
    const std::lock_guard lock(impl_->mutex);
    if (const auto* found = impl_->live.find(account)) {
      day = found->days.get(now.day);
      month = found->months.get(now.month);
    }
  }
  return {.day = spend_of(day, day_label(now.day), now.day_resets_in_s),
          .month = spend_of(month, month_label(now.month), now.month_resets_in_s)};
}

std::int32_t ledger::today() const {
  return impl_->labels.now().day;
}

std::vector<std::string> ledger::accounts() const {
  const std::lock_guard lock(impl_->mutex);
  std::vector<std::string> out;
  for (const auto& [name, account] : impl_->live.accounts()) out.push_back(name);
  return out;
}

const std::string& ledger::identity() const noexcept {
  return impl_->identity;
}

spend_history ledger::history(const std::string& account) const {
  const std::lock_guard lock(impl_->mutex);
  const auto* found = impl_->live.find(account);
  if (found == nullptr) return {};
  return {.days = past_of(found->days, day_label),
          .months = past_of(found->months, month_label),
          .spent = found->sums.spent};
}

bool ledger::add_traffic(const std::vector<traffic_row>& rows) {
  const std::lock_guard order(impl_->traffic_mutex);
  {
    const std::lock_guard lock(impl_->mutex);
    if (!impl_->admit()) return false;
  }
  const auto hour = static_cast<hour_number>(impl_->labels.now().label_s / k_seconds_per_hour);
  traffic_operation op{impl_->traffic.add(rows, hour)};
  const std::lock_guard lock(impl_->mutex);
  impl_->enqueue(std::move(op), false, false);
  return true;
}

traffic_summary ledger::traffic(std::string_view model, std::int64_t since_s) const {
  const std::lock_guard lock(impl_->traffic_mutex);
  return summarize(impl_->traffic.rows(), model, since_s, impl_->labels.now().label_s);
}

const recovery& ledger::recovered() const noexcept {
  return impl_->found;
}

std::vector<charged_reservation> ledger::charged() const {
  return impl_->charged;
}

health_report ledger::health() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->state;
}

ledger_counters ledger::count() const {
  const std::lock_guard lock(impl_->mutex);
  auto counts = impl_->counts;
  counts.reservations_open = impl_->live.open().size();
  counts.operations_waiting = impl_->queue.size();
  counts.pairs = impl_->pairs.size();
  return counts;
}

}  // namespace weir::gateway::ledger
