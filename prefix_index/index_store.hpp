// The index on disk, so that a restarted gateway does not start blind: keys that changed are written behind
// by one thread of the store's own, and a restart loads them as `restored` hints. Best effort by design: a
// full queue drops (counted), a corrupt or foreign database is deleted and started anew, nothing here is ever
// fatal. FORMAT.md fixes keys, values and the upgrade rule.
//
// Threads: changed() and add() on any thread; they never wait for the disk. The constructor before traffic.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "prefix_index/replica_model.hpp"
#include "prefix_index/residency_index.hpp"

namespace weir::prefix_index {

inline constexpr std::size_t k_store_queue_keys_max = std::size_t{1} << 20;  // 16 MiB of keys
inline constexpr std::size_t k_store_batch_keys = 4096;

// A replica by the name that survives a restart; ids may differ from run to run. `model` is null for a
// replica whose pages come from events.
struct stored_replica {
  std::string name;
  replica_id id = 0;
  replica_model* model = nullptr;
};

struct store_counters {
  std::uint64_t keys_loaded = 0;
  std::uint64_t keys_written = 0;
  std::uint64_t keys_dropped = 0;  // the queue was full
  std::uint64_t rebuilt = 0;       // 1: what lay there was unusable and was deleted
  std::uint64_t write_errors = 0;
};

class index_store final {
 public:
  // Opens or makes the database in `folder`, loads it into the index and starts the writer thread. Never
  // fails: without a usable folder it counts write_errors and keeps nothing. The index and the models outlive
  // it.
  index_store(residency_index& index, std::filesystem::path folder, std::vector<stored_replica> replicas);
  ~index_store();  // writes what waits
  index_store(const index_store&) = delete;
  index_store& operator=(const index_store&) = delete;

  // These keys' records changed; call after dispatched(), generated() and correct() of a replica_model. What
  // events change the index tells by itself.
  void changed(std::span<const block_key> keys);

  // A replica that came after the start, or one whose id now means another: kept from now on. What an earlier
  // run knew of its name is not loaded.
  void add(const stored_replica& replica);

  // Waits until everything passed to changed() so far is written.
  void flush();

  store_counters counters() const;

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace weir::prefix_index
