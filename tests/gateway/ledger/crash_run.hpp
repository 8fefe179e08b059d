// One ledger over many deaths: starts a process that works on it, kills it, and compares what is on the disk
// with what that process had said.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "gateway/ledger/store.hpp"
#include "tests/gateway/ledger/crash_events.hpp"

namespace weir::gateway::ledger {

struct crash_plan {
  std::uint32_t seed = 0;
  int kill_after_ms = 0;  // counted from its start, or from when it has opened
  bool while_opening = false;
  bool power_loss = false;
  std::size_t write_buffer_bytes = 0;
};

// Over all cycles.
struct crash_tally {
  std::uint64_t acknowledged = 0, issued = 0, recovered_more = 0, charged = 0, killed_in_open = 0;

  void add(const crash_tally& other) {
    acknowledged += other.acknowledged;
    issued += other.issued;
    recovered_more += other.recovered_more;
    charged += other.charged;
    killed_in_open += other.killed_in_open;
  }
};

class crash_run final {
 public:
  explicit crash_run(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // One life and death. What is wrong on the disk, in words; empty: nothing.
  std::string cycle(const crash_plan&);

  const crash_tally& tally() const noexcept { return tally_; }

 private:
  struct life;
  std::string check(const life&);
  std::string check_charged(const contents&);
  std::string check_reservations(const life&, const contents&);
  std::string check_keys(const life&, const contents&);

  std::filesystem::path folder_;
  contents before_;  // on the disk when the process started
  std::int64_t generation_ = 0;
  crash_tally tally_;
};

}  // namespace weir::gateway::ledger
