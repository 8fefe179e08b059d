#include "gateway/observe/traffic_meter.hpp"

namespace weir::gateway::observe {

void traffic_meter::add(const std::string& model, const std::string& target,
                        const ledger::traffic_counts& one) {
  const std::lock_guard lock(mutex_);
  sums_[{model, target}].add(one);
}

std::vector<ledger::traffic_row> traffic_meter::take() {
  decltype(sums_) taken;
  {
    const std::lock_guard lock(mutex_);
    taken.swap(sums_);
  }
  std::vector<ledger::traffic_row> out;
  for (const auto& [name, counts] : taken) {
    out.push_back({.key = {.hour = 0, .model = name.first, .target = name.second}, .counts = counts});
  }
  return out;
}

void traffic_meter::give_back(const std::vector<ledger::traffic_row>& rows) {
  for (const auto& row : rows) add(row.key.model, row.key.target, row.counts);
}

}  // namespace weir::gateway::observe
