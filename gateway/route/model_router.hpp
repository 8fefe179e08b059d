// Chooses targets for the requests of one model: prompt to keys, keys to what replicas hold, that and their
// load to a decision, and back from what happened to what is known.
//
// A request may wait here while every replica it would choose is busy (policy/placement.hpp). Whoever ends a
// prefill, or a tick of one that waits, places all that can be placed; what was placed for another thread's
// request is handed to it there.
//
// Threads: any; the waiting list has a lock of its own, held for one pass of the policy. A router outlives
// its attempts: both are pinned by the request's snapshot.
#pragma once

#include <atomic>
#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gateway/api/response_writer.hpp"
#include "gateway/errc.hpp"
#include "gateway/prompt/prompt_keys.hpp"
#include "gateway/route/prompt_reader.hpp"
#include "gateway/route/services.hpp"
#include "gateway/route/target_health.hpp"
#include "gateway/task.hpp"
#include "gateway/upstream/upstream.hpp"
#include "policy/failover/attempts.hpp"
#include "policy/failover/overload.hpp"
#include "policy/fair_share.hpp"
#include "policy/hints.hpp"
#include "policy/placement.hpp"
#include "policy/rules.hpp"

namespace weir::gateway::route {

inline constexpr std::size_t k_tokenize_slice_bytes = 64 << 10;  // between which an I/O thread serves others
// More may wait; they enter the order as these leave. Bounds one pass.
inline constexpr std::size_t k_placed_together_max = 128;
inline constexpr std::size_t k_placed_oldest = 32;  // of them, by age alone

struct routed_target {
  std::shared_ptr<upstream::upstream> target;
  std::shared_ptr<target_state> state;
  std::shared_ptr<target_health> health;
};

struct model_terms {
  std::string name;
  std::shared_ptr<const engine::text::tokenizer> tokenizer;   // null: prompts are keyed by text
  std::shared_ptr<const engine::text::prompt_renderer> chat;  // null: only plain prompts are tokenized
  sharing shared_by = sharing::tenant;
  bool own_salts = false;  // callers' cache_salt goes to the engine as it came; none: shared by all
  policy::scoring how;
  policy::overflow_terms overflow;
  policy::placement_terms placement;
  policy::failover::queue_terms queue;  // of those that wait here
};

struct prompt_identity {
  prompt_keys keys;
  std::string cache_salt;  // for the target; empty: none
  double took_s = 0;       // of this thread's time

  // Keys of what a replica may reuse.
  std::span<const prefix_index::block_key> chain() const noexcept {
    return std::span(keys.keys).first(reusable_units(keys));
  }
};

class model_router;

// The name under which a model's chains are rooted: another tokenizer makes other chains.
std::string chain_name(const std::string& model, const engine::text::tokenizer* tokenizer);

// A request on its way at a target. Ends what is counted for it when it goes.
class attempt final {
 public:
  attempt(model_router& router, std::size_t target, std::shared_ptr<const prompt_identity> prompt,
          policy::decision made);
  ~attempt();
  attempt(attempt&&) noexcept;
  attempt& operator=(attempt&&) = delete;

  upstream::upstream& target() const noexcept;
  const policy::decision& made() const noexcept { return made_; }
  std::size_t target_index() const noexcept { return target_; }
  std::chrono::steady_clock::time_point begun() const noexcept { return begun_; }
  const policy::candidate& choice() const noexcept { return made_.candidates[target_]; }
  // The model's, or that of the rule which it fell under.
  const policy::latency_contract& contract() const noexcept { return contract_; }
  // What the request's body tells the target besides what the client wrote.
  std::span<const api::body_member> members() const noexcept { return members_; }

  double waited_s() const noexcept { return waited_s_; }  // for a place

  void starts();  // right before upstream::start()
  void first_token();
  // The answer is whole; `streamed`: its tokens came one by one.
  void finished(const api::token_usage& usage, bool streamed);
  // It came to nothing, or broke; `hold_ns` > 0: nobody shall use the target for so long.
  void failed(policy::failover::breaker_effect effect, std::int64_t hold_ns = 0);

 private:
  friend class model_router;
  model_router* router_;  // null: moved from
  std::size_t target_;
  std::shared_ptr<const prompt_identity> prompt_;
  policy::decision made_;
  std::vector<api::body_member> members_;
  target_state::dispatched_work work_;
  health_use health_;
  policy::latency_contract contract_;
  bool starting_ = true;
  bool told_ = false;  // how it ended
  double waited_s_ = 0;
  std::chrono::steady_clock::time_point begun_;
  std::optional<std::chrono::steady_clock::time_point> first_;
  std::vector<std::uint32_t> hint_units_;

  // How it ended, once: `itl_s` below 0 where nothing tells.
  void tell_outcome(bool whole, const api::token_usage& usage, double itl_s);
  // What the target will hold of the prompt, where that is predicted.
  void tell_index();
};

class model_router final {
 public:
  model_router(model_terms terms, std::vector<routed_target> targets, std::span<const policy::rule> rules,
               services& shared);
  ~model_router();

  const std::vector<routed_target>& targets() const noexcept { return targets_; }
  const model_terms& terms() const noexcept { return terms_; }
  const services& shared() const noexcept { return shared_; }

  // Keys of the call's prompt for this caller. Yields the thread between slices of a long new prompt.
  // `counted`: it is a request that will be sent.
  task<std::shared_ptr<const prompt_identity>> identify(const api::generation_call& call,
                                                        const auth::identity& caller, bool counted = true);

  // The target, once there is one to dispatch to; or the decision that names what speaks against each.
  // `before`: what the request has tried. Cancelled: client_gone.
  using placing = std::expected<attempt, policy::decision>;
  task<result<placing>> place(const api::generation_call& call, const auth::identity& caller,
                              std::shared_ptr<const prompt_identity> prompt,
                              std::chrono::steady_clock::time_point deadline,
                              const policy::failover::attempts& before);

  // Its targets as they stand now, in their order.
  std::vector<policy::target_view> views() const;
  // Whether requests may go there now, but for a probe, and for those that keep a pool of failing targets
  // going.
  bool is_usable(std::size_t target) const;

  // When the first of the targets that are not used may be used again; 0: not known.
  std::int64_t ready_at_ns() const;

  // The decision as it would be made now, without sending or waiting.
  policy::decision explain(const api::generation_call& call, const auth::identity& caller,
                           const prompt_identity& prompt);

 private:
  friend class attempt;
  struct ask;     // what a decision needs of one request
  struct waiter;  // a request that has none yet
  class waiting_place;
  using waiting_list = std::list<std::shared_ptr<waiter>>;

  ask make_ask(const api::generation_call& call, const auth::identity& caller,
               std::shared_ptr<const prompt_identity> prompt, const policy::failover::attempts* before);
  policy::decision decide(const ask& a) const;
  bool is_engine(std::size_t target) const;
  void overrule(std::vector<policy::target_view>& views) const;
  void look_up(ask& a) const;
  void recall_session(ask& a) const;
  void set_aside(ask& a) const;
  sharing sharing_with(const auth::identity& caller) const noexcept {
    return all_shared_ ? sharing::site : sharing_of(caller.terms->sharing, terms_.shared_by);
  }
  attempt dispatch(const ask& a, policy::decision made);
  static policy::fair_share::member member_of(const ask& a);
  // Under the lock. Whether one more may wait, or how it is refused; one that has to leave for it is.
  std::optional<error> let_in(const ask& newcomer, std::chrono::steady_clock::time_point deadline);
  policy::failover::queued_request to_queued(const ask& a, std::chrono::steady_clock::time_point deadline,
                                             std::chrono::steady_clock::time_point now) const;
  error shed(observe::shed_why why, double retry_after_s) const;
  void list(const std::shared_ptr<waiter>& w);
  // Behind its removal from the list.
  void unlist(waiter& w, double served_tokens);
  void left(waiter& w);
  static void wake(const std::shared_ptr<waiter>& w);
  bool is_hopeless(const waiter& w) const;
  void place_waiting();                                           // takes the lock
  void choose_waiting(std::vector<waiting_list::iterator>& out);  // under the lock
  void tick();                                                    // the same, at most once in a while
  void share_prefix(const ask& sent, std::size_t target);         // under the lock
  void work_ended() {
    if (waiting_count_.load(std::memory_order_relaxed) > 0) place_waiting();
  }

  const model_terms terms_;
  const std::string chain_model_;  // the model's name and its tokenizer
  const std::vector<routed_target> targets_;
  const std::span<const policy::rule> rules_;
  services& shared_;
  std::vector<prefix_index::replica_id> ids_;  // of targets with a cache
  bool engines_ = false;                       // some target is the embedded engine
  std::vector<std::size_t> cached_;            // their places in targets_
  std::vector<std::uint16_t> marks_;           // of targets_, in session_memory
  bool all_shared_ = false;                    // a replica is declared shared by all
  std::atomic<std::uint64_t> turn_ = 0;
  std::atomic<double> output_tokens_mean_ = 0;

  std::mutex mutex_;
  waiting_list waiting_;                 // under mutex_
  policy::fair_share fair_;              // under mutex_: of those in it
  policy::failover::drain_meter drain_;  // under mutex_
  double waiting_tokens_ = 0;            // under mutex_: work of those in it
  double expected_tokens_per_s_ = 0;     // under mutex_: of the targets that are up, as configured
  std::atomic<std::size_t> waiting_count_ = 0;
  std::atomic<std::chrono::steady_clock::duration> next_pass_{};
};

}  // namespace weir::gateway::route
