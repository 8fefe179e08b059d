// Who was served how much of what several tenants wait for. Each tenant has a virtual time: the work done for
// it over its weight. Those that wait are ordered by how far their tenant is ahead of the one that got least,
// so that work is shared by weight among tenants that want more than there is, and a flood of one delays only
// itself. A tenant that comes back starts where the least served of those that wait is, or where it left off
// if that is further: nobody saves up, and nobody sheds what it got by leaving. After start-time fair
// queueing (Goyal, Vin, Cheng 1996). When nobody waits all is forgotten.
//
// Priority classes are served highest first; a class that waits and gets nothing ages as a whole, so that a
// lower one is never starved, and old requests of a flood gain nothing over young ones of others.
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace weir::policy {

inline constexpr int k_classes = 4;  // of priority

class fair_share final {
 public:
  struct member {
    std::string_view tenant;
    std::int64_t weight = 1;  // >= 1; the last one counts
    int priority = 0;         // 0..k_classes - 1, the highest is served first
  };
  // A request begins to wait.
  void arrived(const member& who, double now_s);
  // It was served with so much work, or left without.
  void served(const member& who, double work_tokens, double now_s);
  void left(const member& who);

  // Weighted work by which the tenant is ahead of the least served one that waits; 0 for others.
  double lead_tokens(std::string_view tenant) const;

  // Since when a class that waits has got nothing.
  double class_waited_s(int priority, double now_s) const;

  std::size_t remembered() const noexcept { return shares_.size(); }  // tenants

 private:
  struct share {
    std::int64_t weight = 1;
    std::size_t waiting = 0;
    double virtual_tokens = 0;
  };
  struct class_turn {
    std::size_t waiting = 0;
    double since_s = 0;  // it began to wait, or was served
  };
  void leave(const member& who);
  void find_least();

  std::map<std::string, share, std::less<>> shares_;
  std::array<class_turn, k_classes> classes_;
  std::size_t waiting_ = 0;  // requests of all
  double least_ = 0;         // virtual time, of those that wait
};

}  // namespace weir::policy
