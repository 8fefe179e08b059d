// The ledger's folder: a RocksDB database that is written by synced batches and read once, at the start.
//
//   lock          held while open, by flock
//   acknowledged  number of the last batch that was reported as durable: written after it, without a sync,
//                 so it can lag but never lead; a database that is behind it has lost acknowledged writes
//   db/           the database; made as db.new/ and renamed, so that a first start may die at any point
//
// Opening asks the disk for room, by a file "probe", then reads and checks everything before anything else is
// written: a ledger that is refused is left as it was (but for RocksDB's own LOG). Others may not enter the
// folder: its mode becomes 0700.
//
// Not thread-safe. Blocks.
#pragma once

#include <cstdint>
#include <expected>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "gateway/ledger/journal.hpp"

namespace rocksdb {
class DB;
class Env;
}  // namespace rocksdb

namespace weir::gateway::ledger {

struct store_error {
  fault reason = fault::failed;  // or full_disk
  std::string text;              // names the folder and says what to do
};

class store final {
 public:
  struct place {
    std::filesystem::path folder;
    rocksdb::Env* env = nullptr;  // null: the system's
    std::size_t write_buffer_bytes = 0;
  };

  // Takes the lock; makes an empty ledger where there is none.
  static std::expected<std::unique_ptr<store>, store_error> open(place, contents& out);
  // What a ledger that nobody has open holds, checked; changes nothing.
  static std::expected<contents, store_error> read(place);
  ~store();
  store(const store&) = delete;
  store& operator=(const store&) = delete;

  // All of it or nothing, and on the disk when this returns; then `commit` is its number. After a fault the
  // batch may or may not be there: reopen().
  std::expected<void, store_error> write(std::span<const change>, std::uint64_t commit);

  // Closes the database and reads it anew, after a full disk. Refuses (full_disk) while a probe file does not
  // fit; refuses (failed) when acknowledged batches are missing.
  std::expected<contents, store_error> reopen();

  // RocksDB's own name of the database, letters and digits of it.
  std::string identity() const;

 private:
  store(place, int lock_file);
  std::expected<contents, store_error> load_checked() const;
  std::expected<contents, store_error> load();
  std::expected<void, store_error> prepare();
  std::expected<void, store_error> make_database();
  std::expected<void, store_error> open_mark(std::uint64_t commit);
  std::expected<void, store_error> probe_space();

  place place_;
  int lock_file_;
  int mark_file_ = -1;
  std::uint64_t acknowledged_ = 0;
  std::unique_ptr<rocksdb::DB> database_;
};

}  // namespace weir::gateway::ledger
