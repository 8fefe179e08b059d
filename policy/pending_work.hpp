// Prefill work that we gave a target and whose first token has not come. Targets work prefills off about one
// after another, so the oldest counts less the longer it has run. Metrics of a target lag by seconds; this
// ledger knows a dispatch at once, which is what keeps a burst from going to one target. A request whose
// answer is not streamed tells nothing of its first token: its work counts as done when the target should
// have done it. `now_s` is any monotonic clock. One owner; not thread-safe.
#pragma once

#include <cstdint>
#include <deque>

namespace weir::policy {

class pending_work {
 public:
  using ticket = std::uint64_t;

  ticket dispatched(double work_tokens, double now_s, bool tells_first_token = true);
  // The first token came, or the request ended without one. Unknown tickets are ignored.
  void done(ticket id, double now_s);

  // What is left, if the target works `tokens_per_s` off; a rate of 0 takes nothing off.
  double tokens(double tokens_per_s, double now_s) const noexcept;
  std::size_t requests() const noexcept { return jobs_.size(); }

  // By how much the first token of the oldest is late, since anything else came of the target: it should be
  // there after its work and `base_s`, and often takes as long again. Grows while a target hangs, long before
  // anybody gives it up.
  double overdue_s(double tokens_per_s, double base_s, double now_s) const noexcept;

 private:
  struct job {
    ticket id;
    double work_tokens;
    bool tells_first_token;
  };
  std::deque<job> jobs_;  // in order of dispatch
  double total_tokens_ = 0;
  double head_since_s_ = 0;  // since when the first of them runs
  double done_s_ = 0;        // when the last one was done
  ticket next_ = 1;
};

}  // namespace weir::policy
