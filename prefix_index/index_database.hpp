// The store's RocksDB: opened, or deleted and made anew. Internal to index_store.
#pragma once

#include <rocksdb/db.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "prefix_index/index_format.hpp"
#include "prefix_index/index_store.hpp"

namespace weir::prefix_index {

// What a load needs to know of each configured replica.
struct loaded_replica {
  stored_replica replica;
  stored_replica_state state;
};

// Opens `folder`; null when even a new one cannot be made. Sets `rebuilt` if something lay there and was
// deleted.
std::unique_ptr<rocksdb::DB> open_database(const std::filesystem::path& folder, bool& rebuilt);

// Deletes it and makes a new one.
std::unique_ptr<rocksdb::DB> rebuild_database(std::unique_ptr<rocksdb::DB> old,
                                              const std::filesystem::path& folder);

// Gives every configured replica its slot, as the database knows it or new; last_slot is the highest in use.
// False: damaged.
bool load_replicas(rocksdb::DB& database, const std::vector<stored_replica>& replicas,
                   std::vector<loaded_replica>& out, std::uint16_t& last_slot);

}  // namespace weir::prefix_index
