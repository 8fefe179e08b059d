#include "prefix_index/index_store.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

#include "prefix_index/index_database.hpp"
#include "prefix_index/index_load.hpp"

namespace weir::prefix_index {

namespace {

// Keys that change again within it are written once.
constexpr std::chrono::milliseconds k_store_linger{250};
constexpr const char* k_database_name = "prefix-index.rocksdb";

}  // namespace

struct index_store::impl {
  impl(residency_index::impl& i, const std::filesystem::path& f, std::vector<stored_replica> r)
      : index(i), folder(f / k_database_name), configured(std::move(r)), slot_of(k_replicas_max) {}

  void open() {
    bool was_rebuilt = false;
    database = open_database(folder, was_rebuilt);
    if (database && !load()) {
      was_rebuilt = true;
      database = rebuild_database(std::move(database), folder);
      replicas.clear();
      if (database && !load_replicas(*database, configured, replicas, last_slot)) database.reset();
    }
    counters.rebuilt = was_rebuilt;
    if (!database) ++counters.write_errors;
    for (const auto& r : replicas) slot_of[r.replica.id] = r.state.slot;
  }

  bool load() {
    if (!load_replicas(*database, configured, replicas, last_slot)) return false;
    index_loader loader(index, replicas);
    const bool whole = loader.load(*database, counters.keys_loaded);
    loader.finish();
    return whole;
  }

  void run() {
    std::vector<block_key> batch;
    std::vector<stored_replica> added;
    for (;;) {
      std::size_t taken = 0;
      {
        std::unique_lock lock(mutex);
        wake.wait(lock, [this] { return stopping || has_work; });
        if (!has_work) break;
        wake.wait_for(lock, k_store_linger,
                      [this] { return stopping || hurried || queue.size() >= k_store_queue_keys_max / 2; });
        has_work = false;
        hurried = false;
        batch.clear();
        batch.swap(queue);
        added.clear();
        added.swap(newcomers);
        taken = batch.size();
      }
      for (const auto& replica : added) adopt(replica);
      // Prompts that begin alike touch the same keys again and again.
      std::sort(batch.begin(), batch.end(), [](const block_key& a, const block_key& b) {
        return a.low != b.low ? a.low < b.low : a.high < b.high;
      });
      batch.erase(std::unique(batch.begin(), batch.end()), batch.end());
      for (std::size_t i = 0; i < std::max<std::size_t>(batch.size(), 1); i += k_store_batch_keys) {
        write(std::span(batch).subspan(i, std::min(k_store_batch_keys, batch.size() - i)));
      }
      const std::lock_guard lock(mutex);
      written += taken;
      done.notify_all();
    }
    if (database) write({});  // the last state of the replicas
  }

  // A slot of its own, even if an earlier run knew the name: entries of the old one would count again.
  void adopt(const stored_replica& replica) {
    std::erase_if(replicas, [&](const loaded_replica& r) {
      if (r.replica.id != replica.id && r.replica.name != replica.name) return false;
      slot_of[r.replica.id] = 0;
      return true;
    });
    if (last_slot == std::numeric_limits<std::uint16_t>::max()) return;
    slot_of[replica.id] = ++last_slot;
    replicas.push_back({.replica = replica, .state = {.slot = last_slot}});
  }

  template <typename Change>
  void give_work(Change&& change) {
    bool tell = false;
    {
      const std::lock_guard lock(mutex);
      change();
      // The writer sleeps on while work gathers, but for a queue that fills up.
      tell = !has_work || queue.size() >= k_store_queue_keys_max / 2;
      has_work = true;
    }
    if (tell) wake.notify_one();
  }

  void changed(std::span<const block_key> keys) {
    give_work([&] {
      const auto taken = keys.first(std::min(k_store_queue_keys_max - queue.size(), keys.size()));
      queue.insert(queue.end(), taken.begin(), taken.end());
      queued += taken.size();
      counters.keys_dropped += keys.size() - taken.size();
    });
  }

  void write(std::span<const block_key> keys) {
    rocksdb::WriteBatch batch;
    for (const auto& key : keys) add(key, batch);
    for (const auto& r : replicas) {
      const auto& state = index.states[r.replica.id];
      batch.Put(k_replica_prefix + r.replica.name,
                encode_replica_state({.slot = r.state.slot,
                                      .horizon = state.horizon.load(std::memory_order_acquire),
                                      .last_stamp = state.last_stamp.load(std::memory_order_acquire),
                                      .epoch = state.epoch.load(std::memory_order_acquire)}));
    }
    const bool ok = database && database->Write({}, &batch).ok();
    const std::lock_guard lock(mutex);
    if (ok) {
      counters.keys_written += keys.size();
    } else {
      ++counters.write_errors;
    }
  }

  // A record is written as it is now, whatever changed it and however often.
  void add(const block_key& key, rocksdb::WriteBatch& batch) {
    const auto name = encode_record_key(key);
    const rocksdb::Slice where(name.data(), name.size());
    record.words.clear();
    if (index.table.read(key, entries)) {
      record.depth = entries.depth;
      for (std::uint32_t i = 0; i < entries.count; ++i) add_word(entries.words[i]);
    }
    if (record.words.empty()) {
      batch.Delete(where);
      return;
    }
    encode_record(record, value);
    batch.Put(where, value);
  }

  void add_word(std::uint64_t word) {
    if (!is_live(word, entries.depth, index.states) || doubt_field::get(word) != 0) return;
    stored_word out{.kind = static_cast<stored_kind>(kind_of(word))};
    if (is_summary(word)) {
      out.number = summary_field::get(word);
    } else {
      out.slot = slot_of[replica_field::get(word)];
      out.medium = static_cast<std::uint8_t>(medium_of(word));
      out.number = is_model(word) ? stamp_field::get(word) : epoch_field::get(word);
      if (out.slot == 0) return;
    }
    record.words.push_back(out);
  }

  residency_index::impl& index;
  const std::filesystem::path folder;
  const std::vector<stored_replica> configured;
  std::unique_ptr<rocksdb::DB> database;
  std::vector<loaded_replica> replicas;

  // The writer thread's own, once it runs.
  std::vector<std::uint16_t> slot_of;  // by replica id; 0: not stored
  std::uint16_t last_slot = 0;
  entry_copy entries;
  stored_record record;
  std::string value;

  std::mutex mutex;  // of all below
  std::condition_variable wake;
  std::condition_variable done;
  std::vector<block_key> queue;
  std::vector<stored_replica> newcomers;
  bool has_work = false;     // also that a replica was cleared
  bool hurried = false;      // somebody waits for it
  std::uint64_t queued = 0;  // keys taken in
  std::uint64_t written = 0;
  bool stopping = false;
  store_counters counters;

  std::thread thread;
};

index_store::index_store(residency_index& index, std::filesystem::path folder,
                         std::vector<stored_replica> replicas)
    : impl_(std::make_unique<impl>(*index.impl_, folder, std::move(replicas))) {
  impl_->open();
  impl_->thread = std::thread([m = impl_.get()] { m->run(); });
  impl_->index.changes.set([m = impl_.get()](std::span<const block_key> keys) { m->changed(keys); });
}

index_store::~index_store() {
  impl_->index.changes.set(nullptr);
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->wake.notify_one();
  impl_->thread.join();
}

void index_store::changed(std::span<const block_key> keys) {
  impl_->changed(keys);
}

void index_store::add(const stored_replica& replica) {
  impl_->give_work([&] { impl_->newcomers.push_back(replica); });
}

void index_store::flush() {
  std::unique_lock lock(impl_->mutex);
  impl_->hurried = true;
  impl_->wake.notify_one();
  const auto goal = impl_->queued;
  impl_->done.wait(lock, [&] { return impl_->written >= goal; });
}

store_counters index_store::counters() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->counters;
}

}  // namespace weir::prefix_index
