// Who may join those that wait at the gateway, and who has to go. Bounded by their number, and by how long
// the newcomer would wait, predicted from the work that would be served before it and from how fast work was
// served lately: who would come too late is told so at once.
//
// Sheds shadows first, then batch, then the lower priority, and within a rank from the tenant that has the
// most waiting for its weight, newest first: those who waited longer keep their place, a flood of one tenant
// costs the others nothing, and what already runs is never touched. The wait of a newcomer is predicted as
// fair shares serve: of other tenants only what fair_share.hpp would let pass before it counts.
//
// A refusal is ours (503) and says when the queue will have room, stretched at random by up to half so that
// those who are refused together do not come back together.
//
// surely_fits(), admit() and hopeless() are pure, any thread; drain_meter has one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weir::policy::failover {

inline constexpr std::size_t k_nobody = static_cast<std::size_t>(-1);

// What goes first when something has to.
using shed_rank = std::int32_t;
inline constexpr shed_rank k_shadow_rank = 0;
inline constexpr shed_rank k_batch_rank = 1;
constexpr shed_rank rank_of_priority(int priority) noexcept {  // 0..k_classes - 1 of fair_share.hpp
  return 2 + priority;
}

struct queued_request {
  shed_rank rank = rank_of_priority(1);
  std::uint32_t tenant = 0;  // any number that is the same for the same tenant
  std::int64_t weight = 1;   // of the tenant, >= 1
  double lead_tokens = 0;    // of the tenant: fair_share::lead_tokens()
  double work_tokens = 0;    // uncached, on the target that holds most of the prompt
  double waited_s = 0;
  double left_s = 0;  // to its deadline
};

struct queue_terms {
  std::size_t requests_max = 4096;
  double wait_max_s = 10;       // predicted; what may be added to a first token's time
  double deadline_share = 0.9;  // of the time left that the predicted wait and the own work may take
  double retry_after_min_s = 1;
  double retry_after_max_s = 60;  // SDKs take a longer one for a mistake
};

enum class refusal : std::uint8_t {
  none,
  queue_full,  // by number
  too_late,    // it would wait longer than it may
};

struct admission {
  refusal why = refusal::none;    // of the newcomer
  std::size_t victim = k_nobody;  // admitted in the place of this one, which is refused as queue_full
  double wait_s = 0;              // predicted, of the newcomer
  double retry_after_s = 0;       // for whoever is refused
};

// Whether admit() would let the newcomer in whoever waits, from sums: so a queue that is far from its bounds
// costs nothing.
bool surely_fits(const queued_request& newcomer, std::size_t waiting, double waiting_tokens,
                 double tokens_per_s, const queue_terms& terms) noexcept;

// `tokens_per_s`: the fleet's drain rate; 0: not known, then only the number bounds.
admission admit(const queued_request& newcomer, std::span<const queued_request> waiting, double tokens_per_s,
                const queue_terms& terms, std::uint64_t seed);

// One that waits and cannot be served in time any more even if it were next; k_nobody: none.
std::size_t hopeless(std::span<const queued_request> waiting, double tokens_per_s) noexcept;

// How fast the fleet takes work from the queue: work over time, of the last seconds in which it was
// backlogged. What is served at once tells nothing of that, so a queue counts only once it has been waited in
// for a while.
class drain_meter final {
 public:
  // Somebody came, was served so much work, or left. `waiting`: how many waited until then.
  void changed(std::size_t waiting, double served_tokens, double now_s) noexcept;

  // `expected_tokens_per_s`: what the targets that are up should do; counts as one second of observation at
  // first and as nothing once there are four, since what binds may be something else than prefill. 0: not
  // known, then nothing is before a second was observed.
  double tokens_per_s(double expected_tokens_per_s, std::size_t waiting, double now_s) const noexcept;

 private:
  double backlog_s(std::size_t waiting, double now_s) const noexcept;  // since the last event

  double work_tokens_ = 0;  // faded
  double busy_s_ = 0;       // faded
  double since_s_ = 0;      // the queue was empty before
  double at_s_ = 0;         // of the last event
};

}  // namespace weir::policy::failover
