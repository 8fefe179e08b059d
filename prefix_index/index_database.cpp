#include "prefix_index/index_database.hpp"

#include <rocksdb/memtablerep.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <system_error>

namespace weir::prefix_index {

namespace {

constexpr std::size_t k_write_buffer_bytes = std::size_t{32} << 20;
constexpr std::size_t k_block_bytes = std::size_t{32} << 10;  // read front to back, never by point

rocksdb::Options database_options() {
  rocksdb::BlockBasedTableOptions table;
  table.block_size = k_block_bytes;
  table.no_block_cache = true;
  rocksdb::Options options;
  options.create_if_missing = true;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.compression = rocksdb::kNoCompression;  // keys are random
  // Written and never read but when it is opened: no order is kept until a buffer is full.
  options.memtable_factory = std::make_shared<rocksdb::VectorRepFactory>();
  options.allow_concurrent_memtable_write = false;
  options.write_buffer_size = k_write_buffer_bytes;
  options.compaction_style = rocksdb::kCompactionStyleUniversal;  // fewer rewrites than by levels
  options.max_background_jobs = 1;
  options.keep_log_file_num = 2;
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  return options;
}

bool has_version(rocksdb::DB& database) {
  std::string value;
  return database.Get({}, rocksdb::Slice(k_format_key.data(), k_format_key.size()), &value).ok() &&
         value == k_format_value;
}

// `in_use`: another process, or this one, has it open.
std::unique_ptr<rocksdb::DB> try_open(const std::filesystem::path& folder, bool* in_use = nullptr) {
  rocksdb::DB* database = nullptr;
  const auto status = rocksdb::DB::Open(database_options(), folder.string(), &database);
  // RocksDB has no code for it, only the words "While lock file" and "lock hold by".
  if (in_use != nullptr) *in_use = status.IsIOError() && status.ToString().find("lock ") != std::string::npos;
  return std::unique_ptr<rocksdb::DB>(database);
}

std::unique_ptr<rocksdb::DB> make_new(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  std::filesystem::create_directories(folder, ignored);
  auto database = try_open(folder);
  if (database) {
    const auto status = database->Put({}, rocksdb::Slice(k_format_key.data(), k_format_key.size()),
                                      std::string(k_format_value));
    if (!status.ok()) database.reset();
  }
  return database;
}

}  // namespace

std::unique_ptr<rocksdb::DB> open_database(const std::filesystem::path& folder, bool& rebuilt) {
  std::error_code ignored;
  rebuilt = std::filesystem::exists(folder, ignored) && !std::filesystem::is_empty(folder, ignored);
  if (!rebuilt) return make_new(folder);
  bool in_use = false;
  auto database = try_open(folder, &in_use);
  if (in_use) {
    rebuilt = false;
    return nullptr;
  }
  if (database && has_version(*database)) {
    rebuilt = false;
    return database;
  }
  return rebuild_database(std::move(database), folder);
}

std::unique_ptr<rocksdb::DB> rebuild_database(std::unique_ptr<rocksdb::DB> old,
                                              const std::filesystem::path& folder) {
  old.reset();
  return make_new(folder);
}

bool load_replicas(rocksdb::DB& database, const std::vector<stored_replica>& replicas,
                   std::vector<loaded_replica>& out, std::uint16_t& last_slot) {
  std::map<std::string, stored_replica_state> known;
  std::uint32_t highest = 0;
  const std::unique_ptr<rocksdb::Iterator> at(database.NewIterator({}));
  for (at->Seek(rocksdb::Slice(&k_replica_prefix, 1)); at->Valid(); at->Next()) {
    const auto name = at->key().ToStringView();
    if (name.front() != k_replica_prefix) break;
    const auto state = decode_replica_state(at->value().ToStringView());
    if (!state) return false;
    highest = std::max<std::uint32_t>(highest, state->slot);
    known.emplace(name.substr(1), *state);
  }
  if (!at->status().ok()) return false;
  for (const auto& replica : replicas) {
    const auto found = known.find(replica.name);
    if (found == known.end() && ++highest > std::numeric_limits<std::uint16_t>::max()) return false;
    out.push_back({.replica = replica,
                   .state = found != known.end()
                                ? found->second
                                : stored_replica_state{.slot = static_cast<std::uint16_t>(highest)}});
  }
  last_slot = static_cast<std::uint16_t>(highest);
  return true;
}

}  // namespace weir::prefix_index
