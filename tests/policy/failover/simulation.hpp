// A fleet and a small gateway in virtual time: the policies of policy/failover driven as the gateway drives
// them, against targets that fail in every way. Everything follows from the options; what must hold is
// checked at every step and reported by an exception. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "policy/failover/attempts.hpp"
#include "policy/failover/breaker.hpp"
#include "policy/failover/budget.hpp"
#include "policy/failover/freeze.hpp"
#include "policy/failover/overload.hpp"
#include "policy/failover/pool.hpp"

namespace weir::policy::failover {

inline constexpr std::int64_t k_sim_ms = 1'000'000;
inline constexpr std::int64_t k_sim_s = 1'000 * k_sim_ms;

enum class fault : std::uint8_t {
  healthy,
  dead,         // connections are refused, running ones break
  no_tls,       // no handshake
  partitioned,  // no packet passes
  hanging,      // the process stands still
  erring,       // 500
  unavailable,  // 502
  limited,      // 429 with Retry-After
  queue_full,   // 503 with Retry-After
  bad_key,      // 401
  cutting,      // streams break, before or after their first content
  error_first,  // 200, then an error event
  slow,
  closing,  // pooled connections are closed already
};
inline constexpr int k_faults = 14;

struct fault_change {
  std::int64_t at_ns;
  std::size_t target;
  fault becomes;
};

struct sim_options {
  std::uint64_t seed = 0;
  std::size_t targets = 3;
  int slots = 4;                   // of each target
  std::int64_t window_tokens = 0;  // of every second target; 0: all prompts fit everywhere
  double requests_per_s = 10;
  double burst_factor = 1;  // on the rate, between the two times
  std::int64_t burst_from_ns = 0, burst_to_ns = 0;
  std::int64_t duration_ns = 20 * k_sim_s;  // of arrivals
  std::int64_t time_ns = 10 * k_sim_s;      // of a request to its first content
  double work_tokens = 2'000;               // mean
  double tokens_per_s = 20'000;             // of a slot
  std::int64_t stream_ns = 500 * k_sim_ms;  // mean
  bool awkward = true;                      // clients that leave, that ask for too much, that err
  attempt_terms terms;
  queue_terms queue;
  breaker_terms breakers;
  std::vector<fault_change> script;
};

struct sim_request {
  std::unique_ptr<attempts> machine;
  std::int64_t arrived_ns = 0, deadline_ns = 0, content_ns = 0, ended_ns = 0;
  double work_tokens = 0;
  shed_rank rank = 3;
  std::uint32_t tenant = 0;
  bool is_bad = false;  // every target answers 400
  bool is_queued = false;
  bool retry_taken = false;  // for a target that is being chosen
  int forwards = 0, ends = 0;
  outcome how;
  struct run {
    std::size_t target = 0;
    permit under;
    bool is_live = false, streams = false, fresh = false;
    std::int64_t begun_ns = 0, heard_ns = 0;
    std::uint32_t turn = 0;  // events of an earlier one are stale
  };
  std::array<run, k_attempts_max> runs;
};

struct sim_totals {
  std::size_t requests = 0, answered = 0, failed_early = 0, interrupted = 0, shed = 0;
  std::size_t retries = 0, hedges = 0, reconnects = 0, openings = 0, probes = 0;
  std::int64_t frozen_seen_after_ns = 0;  // the longest that an attempt waited for a hanging target
  std::array<std::size_t, k_failure_kinds> ends{};
};

class simulation final {
 public:
  explicit simulation(const sim_options& options);

  void run();
  const sim_totals& totals() const noexcept { return totals_; }
  const std::deque<sim_request>& requests() const noexcept { return requests_; }

 private:
  enum class kind : std::uint8_t {
    arrive,
    change,
    tick,
    leave,
    content,
    finish,
    fail,
    timeout,
    check,
    probe
  };
  struct event {
    std::int64_t at_ns;
    std::uint64_t order;
    kind what;
    std::size_t request = 0;
    int attempt = 0;
    std::uint32_t turn = 0;
    attempt_end end{};
    bool operator>(const event& other) const noexcept {
      return at_ns != other.at_ns ? at_ns > other.at_ns : order > other.order;
    }
  };
  struct sim_target {
    sim_target(const sim_options& o, std::size_t i) : health(o.breakers, o.seed * 31 + i), watch({}) {}
    breaker health;
    freeze_watch watch;
    fault is = fault::healthy;
    int busy = 0, permits = 0, probes = 0;
    std::int64_t window_tokens = 1'000'000;
    std::int64_t key_out_until_ns = 0;
    std::int64_t changed_ns = 0;
  };

  void post(std::int64_t at_ns, event e);
  void dispatch(const event& e);
  void check(bool holds, const char* what) const;
  double random_unit() { return std::uniform_real_distribution<>(0, 1)(random_); }
  std::int64_t around(std::int64_t mean_ns);

  void arrive(std::size_t index);
  void act(std::size_t index, const action& a);
  void choose(std::size_t index);
  struct choice {
    std::size_t target = k_no_target;
    bool overruled = false;
    bool any = false;  // some may be used, if not now
    std::int64_t ready_at_ns = k_never_ns;
  };
  choice find_target(std::size_t index) const;
  void none_usable(std::size_t index, std::int64_t ready_at_ns);
  void enqueue(std::size_t index);
  void shed(std::size_t index, double retry_after_s);
  void leave_queue(std::size_t index, double served_tokens);
  void drain();
  void begin_run(std::size_t index, std::size_t target, bool overruled);
  void serve(std::size_t index, int attempt);
  void serve_fault(std::size_t index, int attempt);
  void end_run(std::size_t index, int attempt, const attempt_end& how);
  void release(sim_request::run& r, breaker_effect effect);
  void cancel(std::size_t index, int attempt);
  void check_freeze(std::size_t index, int attempt);
  void change(const fault_change& c);
  void count_retry(int change);
  std::vector<queued_request> queue_view() const;
  queued_request view_of(const sim_request& r) const;
  double expected_rate() const;
  bool is_silent(const sim_target& t) const noexcept {
    return t.is == fault::hanging || t.is == fault::partitioned;
  }

  const sim_options options_;
  std::mt19937_64 random_;
  std::int64_t now_ = k_sim_s;
  std::uint64_t order_ = 0;
  std::priority_queue<event, std::vector<event>, std::greater<>> events_;
  std::deque<sim_target> targets_;
  std::deque<sim_request> requests_;
  std::list<std::size_t> queue_;
  drain_meter meter_;
  share_budget retries_{{}};
  share_budget hedges_{{.share_permille = 20, .units_min = 0}};
  std::vector<int> requests_in_, retries_in_;  // by second
  bool draining_ = false;
  sim_totals totals_;
};

}  // namespace weir::policy::failover
