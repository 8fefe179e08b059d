// What the router knows of one target while requests come and go: prefill work that we gave it, how fast it
// proved to be, what it says of its own load, and the model of its cache. Lives as long as the target's name
// stays in the configuration, over reloads. Any thread; locks are held for a few additions.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "gateway/api/response_writer.hpp"
#include "gateway/config/config.hpp"
#include "gateway/route/load_metrics.hpp"
#include "policy/pending_work.hpp"
#include "policy/speed.hpp"
#include "policy/types.hpp"
#include "prefix_index/replica_model.hpp"

namespace weir::gateway::route {

// Where neither configuration nor metrics tell how much a replica keeps: forgetting too late costs little,
// forgetting too early costs hits.
inline constexpr std::uint64_t k_capacity_guess_tokens = 4'000'000;

// A report older than this says nothing any more: a target whose metrics died must not be shunned for ever.
inline constexpr double k_report_kept_s = 60;

// The monotonic clock that all states are told the time by.
inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// At every page boundary, not only at recurrent checkpoints.
inline bool resumes_anywhere(const config::cache_config& cache) noexcept {
  return cache.checkpoint_tokens == 0 || cache.retention == "dense";
}

// A replica keeps and resumes whole blocks of its own.
inline std::int64_t whole_blocks(std::int64_t tokens, const config::cache_config& cache) noexcept {
  return cache.block_tokens > 1 ? tokens / cache.block_tokens * cache.block_tokens : tokens;
}

class target_state final {
 public:
  // The index outlives the state. `unit_tokens` is what a key of the model's chains stands for.
  target_state(prefix_index::residency_index& index, prefix_index::replica_id id,
               const config::target_config& config, std::uint32_t unit_tokens);
  ~target_state();  // forgets the replica's residency
  target_state(const target_state&) = delete;
  target_state& operator=(const target_state&) = delete;

  const std::string& name() const noexcept { return name_; }
  prefix_index::replica_id id() const noexcept { return id_; }
  const config::cache_config& cache() const noexcept { return cache_; }
  bool hosted() const noexcept { return terms_.hosted; }
  bool has_cache() const noexcept { return cache_.on; }
  // Predicts the cache from dispatches; null where it says itself what it holds, or has none.
  prefix_index::replica_model* model() noexcept { return model_.load(std::memory_order_acquire); }

  // Adds speed, load and price to what the target says of itself.
  void fill(policy::target_view& view, double now_s) const;

  using ticket = policy::pending_work::ticket;
  struct dispatched_work {
    ticket id = 0;
    double ahead_tokens = 0;  // pending when the request came
    policy::account_need takes;
    bool resumes = false;  // a checkpoint that comes over the link, until the first token
  };
  dispatched_work dispatched(double work_tokens, double now_s, bool tells_first_token,
                             const policy::account_need& takes = {}, bool resumes = false);
  // From here on the target itself counts it; exactly once for each that is dispatched.
  void started();
  // `work_tokens`: of the request and pending ahead of it.
  void first_token(dispatched_work& work, double work_tokens, double ttft_s, double now_s);
  void ended(dispatched_work& work, double now_s);  // whether or not a first token came
  // A request went elsewhere because an account had no room.
  void turned_away(policy::verdict why) noexcept;
  struct turned_away_counts {
    std::uint64_t no_state_slot = 0;
    std::uint64_t no_context_pages = 0;
    std::uint64_t kept_for_replication = 0;
  };
  turned_away_counts turned_away() const noexcept;
  void tokens_came(double itl_s);
  // An attempt came to its end, or to nothing; not one that its client left.
  // `usage`: prices it where the target has a price list.
  void result(policy::result_seen seen, const api::token_usage& usage, double now_s);
  std::array<policy::outcome_estimator::totals, policy::k_request_classes> results() const;

  // True: the target has begun anew since its last report, with an empty cache.
  bool report(const load_report& report, double now_s);

  // Its events do not fit: the cache is predicted from now on. Once, one thread.
  void use_simulation();

 private:
  double rate() const noexcept;
  policy::account_view accounts(bool told) const noexcept;  // under the lock
  void note_usage(const load_report& report) noexcept;      // likewise

  const std::string name_;
  const prefix_index::replica_id id_;
  const config::cache_config cache_;
  const config::terms_config terms_;
  prefix_index::residency_index& index_;
  const std::uint32_t unit_tokens_;
  std::unique_ptr<prefix_index::replica_model> own_model_;
  std::atomic<prefix_index::replica_model*> model_ = nullptr;

  mutable std::mutex mutex_;
  policy::pending_work pending_;
  policy::speed_estimator speed_;
  mutable policy::outcome_estimator outcomes_;
  std::int32_t running_ = 0;          // ours, from dispatch to end
  std::int32_t starting_ = 0;         // of them, those that the target does not count yet
  double work_mean_tokens_ = 2'000;   // of our dispatches
  double others_pending_tokens_ = 0;  // work that others gave it, as of the last report
  std::int32_t others_running_ = 0;
  // Of the accounts: ours from dispatch to end, and what others take as of the last report.
  std::int64_t slots_ = 0;
  std::int64_t context_tokens_ = 0;
  std::int64_t resuming_ = 0;
  std::int64_t others_slots_ = 0;
  std::int64_t others_context_tokens_ = 0;
  std::int64_t reported_context_tokens_ = 0;  // in all
  std::array<std::atomic<std::uint64_t>, 3> turned_away_{};
  double reported_at_s_ = 0;
  double queried_tokens_ = -1;
};

}  // namespace weir::gateway::route
