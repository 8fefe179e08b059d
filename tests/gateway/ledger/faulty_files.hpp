// A file system whose disk can fill up, fail to sync, and lose its power.
#pragma once

#include <rocksdb/env.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>

namespace weir::gateway::ledger {

struct disk_faults {
  static constexpr std::int64_t k_endless = std::numeric_limits<std::int64_t>::max() / 2;

  // Bytes that still can be appended; the append that does not fit writes what fits and fails with ENOSPC.
  std::atomic<std::int64_t> space_bytes = k_endless;
  std::atomic<bool> sync_fails = false;    // with EIO
  std::atomic<bool> sync_is_full = false;  // with ENOSPC, although all bytes are there
  // Unsynced bytes stay in this process's memory, so that its SIGKILL is a power loss; now and then a random
  // part of them reaches the disk early, as a kernel would write it. The seed of that; 0: off.
  std::uint32_t forgets_seed = 0;
};

// REQUIRES: `faults` outlives the environment.
std::unique_ptr<rocksdb::Env> make_faulty_env(disk_faults& faults);

}  // namespace weir::gateway::ledger
