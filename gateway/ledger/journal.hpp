// What the disk holds, and how one batch of operations changes it. Pure: no clock, no files. It runs ahead of
// the disk by the one batch that is being written; when that fails, the journal is thrown away and built anew
// from what the disk turns out to hold.
//
// Not thread-safe: belongs to the commit thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gateway/ledger/book.hpp"

namespace weir::gateway::ledger {

using key_table = std::map<std::string, auth::key_record>;
using tenant_table = std::map<std::string, auth::tenant_record>;

// Everything that a ledger holds.
struct contents {
  book sums;
  key_table keys;
  tenant_table tenants;
  std::deque<stored_charge> charged;  // by place
  traffic_table traffic;              // as found; the journal itself keeps none of it
  std::deque<stored_pair> pairs;      // likewise
};

struct reserve_operation {
  reservation_id id = 0;  // the next one: operations are in the order of their ids
  reservation_ref reservation;
  done ok;
};
struct settle_operation {
  reservation_id id = 0;
  usd_nano actual = 0;
  done committed;
};
// A reserve whose caller was told that it failed.
struct void_operation {
  reservation_id id = 0;
};
struct put_key_operation {
  auth::key_record record;
  done committed;
  bool refused = false;  // set by write(): the key there is revoked
};
struct put_tenant_operation {
  auth::tenant_record record;
  done committed;
};
struct erase_key_operation {
  std::string id;
  done committed;
};

// Rows as they shall be, whole.
struct traffic_operation {
  traffic_sum::change change;
};

struct add_pair_operation {
  std::shared_ptr<const policy::comparison::pair> record;
  std::uint64_t place = 0;  // set by write()
};

using operation =
    std::variant<reserve_operation, settle_operation, void_operation, put_key_operation, put_tenant_operation,
                 erase_key_operation, traffic_operation, add_pair_operation>;

class journal final {
 public:
  explicit journal(contents on_disk);

  // The batch that does all of these; its number is in on_disk().sums.state().commit. Throws
  // std::logic_error on a hole in the ids.
  std::vector<change> write(std::span<operation>, const moment&);

  // Of the next batches.
  void keep_pairs(const pair_retention& how) { pairs_kept_ = how; }

  // The batch that charges whatever is open; empty when nothing is.
  std::vector<change> charge_open(const moment&, recovery& report);

  // The next batch makes the records equal to these: those of a batch that failed may be on the disk.
  void restore_records(const key_table&, const tenant_table&);

  const contents& on_disk() const noexcept { return now_; }

 private:
  void apply(reserve_operation&);
  void apply(settle_operation&);
  void apply(void_operation&);
  void apply(put_key_operation&);
  void apply(put_tenant_operation&);
  void apply(erase_key_operation&);
  void apply(traffic_operation&);
  void apply(add_pair_operation&);
  void drop_pairs(const moment&);
  void ended(reservation_id, const reservation_record&);
  void append_charge(charged_reservation);
  std::vector<change> finish(const moment&);

  contents now_;
  std::vector<change> changes_;
  // Touched by the batch: each is written once, as it is at its end.
  std::set<std::string> accounts_;
  std::set<std::pair<std::string, day_number>> days_;
  day_number swept_ = -1;  // day of the last sweep of old windows
  pair_retention pairs_kept_;
  std::uint64_t next_pair_ = 0;  // place
};

}  // namespace weir::gateway::ledger
