// Counts of what goes to each target, between two writes to the ledger. One entry for a model and target,
// both configured names, so that it stays small. Any thread; the lock is held for a few additions.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "gateway/ledger/traffic.hpp"

namespace weir::gateway::observe {

class traffic_meter final {
 public:
  void add(const std::string& model, const std::string& target, const ledger::traffic_counts& one);

  // All of it; the meter begins anew.
  std::vector<ledger::traffic_row> take();
  // What could not be written.
  void give_back(const std::vector<ledger::traffic_row>& rows);

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, ledger::traffic_counts> sums_;
};

}  // namespace weir::gateway::observe
