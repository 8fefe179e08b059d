// One request's way through its attempts, without I/O: what happens goes in, what to do next comes out.
//
//   begin -> pick -> placed -> wait ... content -> forward ... finished -> end
//                 \-> none_placed      \-> failed -> pick | reconnect | wait | end
//
// Rules. At most attempts_max attempts, hedges counted, all under one deadline, none begun with less than
// attempt_min_ns of it left. Each one after the first is asked of the retry budget; a connection that was
// closed while it lay in the pool is replaced for free, once an attempt; one whose target cannot say the
// request was never sent, and counts for nothing but k_attempts_max. A target that failed is not used
// again for the request; one that asked for a pause is until then, and is waited for when nobody else is left
// and the pause is short. After a context overflow only larger windows are tried. Nothing is retried after
// the first content. The head and preamble of an attempt are the caller's to hold until `forward` (A7).
//
// Invariants: `end` comes exactly once, `forward` at most once and never after it; after either no attempt is
// begun. Events of attempts that are over, and any after the end, are answered with `none`.
//
// The caller records every attempt that was begun with its target's breaker itself, exactly once, also those
// that it is told to cancel. Times are those of a monotonic clock of the caller, in ns. One owner; not
// thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "policy/failover/breaker.hpp"
#include "policy/failover/budget.hpp"
#include "policy/failover/failure.hpp"
#include "policy/types.hpp"

namespace weir::policy::failover {

inline constexpr int k_attempts_max = 8;
inline constexpr int k_no_attempt = -1;

struct attempt_terms {
  int attempts_max = 2;                      // 1..k_attempts_max
  std::int64_t content_ns = 0;               // of an attempt to its first content; 0: up to the deadline
  std::int64_t attempt_min_ns = 50'000'000;  // with less left none is begun
  std::int64_t pause_ns = 1'000'000'000;     // of a target that asks for one without saying how long
  std::int64_t wait_max_ns = 2'000'000'000;  // for a target that asked for a pause
  std::int64_t hedge_after_ns = 0;           // without content a second attempt runs beside; 0: never
};

// Shared by requests; each may be null: no bound, and no hedges.
struct attempt_budgets {
  share_budget* retries = nullptr;  // in requests
  share_budget* hedges = nullptr;   // in money
  std::int64_t cost = 0;            // of the request, in the latter's unit
};

enum class step : std::uint8_t {
  none,       // nothing: the event is of something that is over
  wait,       // for an event; call tick() at wake_ns
  pick,       // choose a target that may_use() allows, then placed() or none_placed()
  reconnect,  // begin `attempt` again on a fresh connection to its target
  forward,    // `attempt` is the answer: pass on what of it was held, and then the rest
  end,        // cancel whatever runs; the client gets `how`
};

// How the request ends.
struct outcome {
  failure_kind why = failure_kind::none;
  client_reply reply = client_reply::relayed;
  bool never_placed = false;        // no attempt was begun: the router's decision has the reasons
  int attempt = k_no_attempt;       // whose answer or error it is
  std::int64_t retry_after_ns = 0;  // of `unavailable`; 0: not known
};

struct action {
  step what = step::none;
  int attempt = k_no_attempt;
  int cancel = k_no_attempt;       // to be cancelled, whatever `what` is
  std::int64_t content_by_ns = 0;  // with `attempt`: when its time for the first content is over
  std::int64_t wake_ns = k_never_ns;
  outcome how;
};

class attempts final {
 public:
  attempts(const attempt_terms& terms, const attempt_budgets& budgets, std::int64_t deadline_ns) noexcept;

  action begin(std::int64_t now_ns) noexcept;

  // Whether a target may be picked now. `context_tokens`: of its window; 0: not known.
  bool may_use(std::size_t target, std::int64_t context_tokens, std::int64_t now_ns) const noexcept;

  // A target was picked, and its breaker agrees. `wait`: begin `attempt` there. `none`: it is wanted no more.
  action placed(std::size_t target, std::int64_t context_tokens, std::int64_t now_ns) noexcept;
  // It did not begin after all: another took the target's last place. Choose again.
  action unplaced(int attempt) noexcept;
  // There is none. `ready_at_ns`: when one is known to come back; 0: not known.
  action none_placed(std::int64_t ready_at_ns, std::int64_t now_ns) noexcept;

  // It was refused a place in the queue, or lost it (overload.hpp).
  action shed(std::int64_t retry_after_ns) noexcept;

  // The first content of an attempt, or the whole of an answer that is no stream.
  action content(int attempt, std::int64_t now_ns) noexcept;
  action finished(int attempt, std::int64_t now_ns) noexcept;
  // `same_again`: its target may be tried once more at once, as with another key of ours; that is no retry of
  // the budget's.
  action failed(int attempt, failure_kind why, std::int64_t retry_after_ns, std::int64_t now_ns,
                bool same_again = false) noexcept;
  action client_gone() noexcept;
  action tick(std::int64_t now_ns) noexcept;

  // What an attempt died of whose time for the first content is over: the target had a fair part of it, or
  // not.
  ending timeout_of(int attempt, std::int64_t now_ns) const noexcept;

  int begun() const noexcept { return begun_; }
  // Whether the budgets alone kept it from a further attempt.
  bool retry_denied() const noexcept { return retry_denied_; }
  bool hedge_denied() const noexcept { return hedge_denied_; }
  bool ended() const noexcept { return phase_ == phase::ended; }

 private:
  enum class phase : std::uint8_t {
    fresh,     // until begin()
    trying,    // attempts run, or a target is being picked
    pausing,   // until resume_ns_
    relaying,  // the winner's content flows; finished(), failed() or client_gone() leave it
    ended,
  };
  struct attempt_state {
    std::size_t target = k_no_target;
    std::int64_t context_tokens = 0;
    std::int64_t begun_ns = 0;
    std::int64_t banned_until_ns = 0;  // for this request
    bool runs = false;
    bool reconnected = false;
  };
  enum class pick_for : std::uint8_t { nothing, first, retry, hedge };

  bool is_running(int attempt) const noexcept;
  int running() const noexcept;
  std::int64_t content_by(const attempt_state& of) const noexcept;
  std::int64_t next_wake() const noexcept;
  action wait() const noexcept;
  action end(failure_kind why, int attempt, std::int64_t now_ns) noexcept;
  action end_with_last(std::int64_t now_ns) noexcept;
  action retry(std::int64_t now_ns, bool is_free = false) noexcept;
  action hedge(std::int64_t now_ns) noexcept;
  void forget_pick() noexcept;  // gives back what was taken for it
  std::int64_t back_at(std::int64_t now_ns) const noexcept;

  const attempt_terms terms_;
  const attempt_budgets budgets_;
  const std::int64_t deadline_ns_;
  phase phase_ = phase::fresh;
  pick_for picking_ = pick_for::nothing;
  int begun_ = 0;
  int unsent_ = 0;  // of them, refused before they were sent
  int winner_ = k_no_attempt;
  bool hedged_ = false;
  bool retry_denied_ = false;
  bool hedge_denied_ = false;
  bool paused_ = false;
  std::int64_t hedge_ns_ = k_never_ns;
  std::int64_t resume_ns_ = k_never_ns;
  std::int64_t ready_at_ns_ = 0;
  std::int64_t window_above_ = -1;  // tokens; only larger windows may be used
  failure_kind last_ = failure_kind::none;
  int last_attempt_ = k_no_attempt;
  std::array<attempt_state, k_attempts_max> attempts_;
};

}  // namespace weir::policy::failover
