// A request's attempts until one of them has content: places it, tries the target, and tries elsewhere what
// another target may answer (policy/failover/attempts.hpp decides). Where hedging is on, a second target gets
// the request while the first has no content: two coroutines of the same thread, of which the one that has
// content ends the other. Nothing has gone to the client before run() returns. One request, one thread.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "gateway/api/endpoints.hpp"
#include "gateway/limits/ticket.hpp"
#include "gateway/upstream/upstream.hpp"
#include "policy/failover/attempts.hpp"

namespace weir::gateway::relay {

struct placed_request {
  api::request_context& context;
  const model_entry& entry;
  std::shared_ptr<const api::generation_call> call;
  std::shared_ptr<const route::prompt_identity> prompt;
  limits::ticket& ticket;              // what each attempt used is charged to it
  std::string_view id_prefix;          // of the identifier of an answer that the gateway writes itself
  std::int64_t output_tokens_max = 0;  // as upstream::dispatch has it
  std::int64_t hedge_units = 0;  // of the model's hedge budget that a second target takes; 0: it gets none
};

struct answer {
  route::attempt attempt;
  std::unique_ptr<upstream::response> response;
  std::string_view first;  // its first piece
  upstream::time_limits limits;
  trace::attempt_span span;
};

// How a request ends that nobody answered.
struct refusal {
  error why;
  std::optional<http::reply> reply;  // of the target, to be passed on as it is
};

class answer_search final {
 public:
  explicit answer_search(const placed_request& request);

  task<std::expected<answer, refusal>> run();

 private:
  using action = policy::failover::action;

  // One attempt, until it has failed or is the answer.
  struct course_state {
    limits::course as = limits::course::main;
    int id = policy::failover::k_no_attempt;
    std::optional<route::attempt> attempt;
    std::unique_ptr<upstream::response> response;
    std::string_view first;
    upstream::time_limits limits;
    trace::attempt_span span;
  };

  task<action> pick(course_state& to);
  task<action> try_target(course_state& on);
  task<action> pause(std::int64_t until_ns);
  // The attempt that `begun` begins and, when it is time, one beside it. What to do next, when one has
  // content or neither runs.
  task<action> race(action begun);
  task<bool> lead();    // true: what it found decides
  task<bool> follow();  // likewise
  bool decides(const action& found);
  bool runs_beside(const course_state& on) const noexcept;
  void show(const route::attempt& at);
  action failed(course_state& on, upstream::attempt_failure failure);
  answer take_winner(int id);
  void count_denied() const;  // attempts for which the budgets had nothing left
  refusal conclude(const policy::failover::outcome& how) const;
  refusal conclude_answered(policy::failover::client_reply reply) const;

  const placed_request& request_;
  route::model_router& router_;
  const upstream::time_limits general_;
  const upstream::time_point placed_by_;  // the first one
  const upstream::time_point deadline_;   // all
  const int attempts_max_;
  policy::failover::attempts plan_;

  course_state main_;
  std::unique_ptr<course_state> beside_;  // null: there was none
  action next_;                           // of race()
  upstream::attempt_failure failure_;     // of the last that failed
  std::optional<http::reply> reply_;      // and what it answered
  std::optional<policy::decision> none_;  // why nobody was found
  std::optional<error> stopped_;          // by what no other attempt would change
};

// How long the parts of an answer may take where a target does not say.
upstream::time_limits general_limits(const config::limits_config& limits);

}  // namespace weir::gateway::relay
