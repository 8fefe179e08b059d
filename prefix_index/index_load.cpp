#include "prefix_index/index_load.hpp"

#include <algorithm>

#include "prefix_index/replica_model_impl.hpp"

namespace weir::prefix_index {

namespace {

constexpr std::size_t k_readahead_bytes = std::size_t{4} << 20;
constexpr std::size_t k_slots = 65'536;

}  // namespace

index_loader::index_loader(residency_index::impl& index, const std::vector<loaded_replica>& replicas)
    : index_(index), target_of_slot_(k_slots) {
  for (const auto& replica : replicas) {
    targets_.push_back({.known = replica});
    target_of_slot_[replica.state.slot] = static_cast<std::uint32_t>(targets_.size());
    if (replica.state.epoch == 0) continue;  // a new name
    auto& state = index_.states[replica.replica.id];
    if (state.has_spoken.load(std::memory_order_acquire)) {
      targets_.back().known.state.epoch = 0;  // what it said already must not end; its hints come too late
    } else {
      state.epoch.store(replica.state.epoch, std::memory_order_release);
    }
    state.last_stamp.store(replica.state.last_stamp, std::memory_order_release);
    state.horizon.store(replica.state.horizon, std::memory_order_release);
  }
}

std::uint64_t index_loader::revive_simulated(target& t, const stored_word& word, std::uint32_t depth) {
  const bool checkpoint = word.kind == stored_kind::model_checkpoint;
  const auto order = age_order(word.number, checkpoint, depth);
  if (t.known.replica.model == nullptr || order <= t.known.state.horizon ||
      word.number > t.known.state.last_stamp) {
    return 0;
  }
  if (checkpoint) {
    t.checkpoints.push_back(order);
  } else {
    const auto [at, fresh] = t.pages.try_emplace(word.number, range{depth, depth + 1});
    if (!fresh) at->second = {std::min(at->second.first, depth), std::max(at->second.end, depth + 1)};
  }
  const auto kind = checkpoint ? entry_kind::model_checkpoint : entry_kind::model_pages;
  return stamp_field::set(with_confidence(who(kind, t.known.replica.id), confidence::restored), word.number);
}

std::uint64_t index_loader::revive(const stored_word& word, std::uint32_t depth) {
  if (word.kind == stored_kind::near_summary || word.kind == stored_kind::far_summary) {
    return summary_field::set(who(static_cast<entry_kind>(word.kind), 0), word.number);
  }
  const auto number = target_of_slot_[word.slot];
  if (number == 0) return 0;
  auto& t = targets_[number - 1];
  if (word.kind == stored_kind::model_pages || word.kind == stored_kind::model_checkpoint) {
    return revive_simulated(t, word, depth);
  }
  if (word.number != (t.known.state.epoch & k_epoch_mask)) return 0;
  const auto self = who(static_cast<entry_kind>(word.kind), t.known.replica.id);
  const auto entry = epoch_field::set(with_confidence(self, confidence::restored), word.number);
  return with_copies(entry, static_cast<kv_medium>(word.medium), 1);
}

bool index_loader::load(rocksdb::DB& database, std::uint64_t& keys_loaded) {
  std::uint64_t keys = 0;
  if (database.GetIntProperty("rocksdb.estimate-num-keys", &keys)) index_.table.reserve(keys);
  rocksdb::ReadOptions options;
  options.readahead_size = k_readahead_bytes;
  options.fill_cache = false;
  options.verify_checksums = true;
  const std::unique_ptr<rocksdb::Iterator> at(database.NewIterator(options));
  stored_record record;
  residency_table::fresh_records fresh(index_.table);
  std::vector<std::uint64_t> entries;
  for (at->Seek(rocksdb::Slice(&k_record_prefix, 1)); at->Valid(); at->Next()) {
    const auto key = decode_record_key(at->key().ToStringView());
    if (!key || !decode_record(at->value().ToStringView(), record)) return false;
    entries.clear();
    for (const auto& word : record.words) {
      if (const auto entry = revive(word, record.depth); entry != 0) entries.push_back(entry);
    }
    if (entries.empty()) continue;
    auto open = index_.table.open_or_create(*key, record.depth, fresh);
    if (!open) continue;
    for (const auto entry : entries) open.put(entry);
    ++keys_loaded;
  }
  return at->status().ok();
}

void index_loader::finish() {
  for (auto& t : targets_) {
    if (t.known.replica.model == nullptr) continue;
    auto& model = *t.known.replica.model->impl_;
    const std::lock_guard guard(model.mutex);
    model.follow_clear();
    model.ledger.clear();
    std::vector<std::pair<std::uint64_t, range>> pages(t.pages.begin(), t.pages.end());
    std::sort(pages.begin(), pages.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [stamp, r] : pages) model.ledger.restore_pages(stamp, r.first, r.end);
    for (const auto order : t.checkpoints) model.ledger.put_checkpoint(0, order);
    model.raise_horizon();  // the capacity may have shrunk meanwhile
  }
}

}  // namespace weir::prefix_index
