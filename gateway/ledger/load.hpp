// Everything that a ledger's database holds, checked. Blocks; external lock.
#pragma once

#include <expected>
#include <string>

#include "gateway/ledger/journal.hpp"

namespace rocksdb {
class DB;
}

namespace weir::gateway::ledger {

enum class load_fault : std::uint8_t {
  damaged,
  foreign,  // another format: intact for all we know
};

struct load_error {
  load_fault what = load_fault::damaged;
  std::string detail;
};

// Reads every block and every record; their checksums must match and the sums must add up.
std::expected<contents, load_error> load_contents(rocksdb::DB&);

}  // namespace weir::gateway::ledger
