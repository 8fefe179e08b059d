// One copy of a request: from what the primary's answer left to a pair in the ledger. Its memory is held from
// the moment that the request was chosen. One request, one I/O thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "gateway/api/generation_call.hpp"
#include "gateway/shadow/answer.hpp"
#include "gateway/shadow/destination.hpp"
#include "gateway/task.hpp"
#include "gateway/upstream/upstream.hpp"
#include "policy/comparison/pair.hpp"

namespace weir::gateway::shadow {

class hub;

// What one copy may hold at most, for bodies in their stages: as redacted, as edited, as its dialect says it.
inline constexpr std::size_t k_body_stages = 3;

struct copy_job {
  explicit copy_job(std::shared_ptr<const destination> where) : to(std::move(where)), held(to->memory) {}

  std::shared_ptr<const destination> to;
  http::budget_hold held;
  std::shared_ptr<const api::generation_call> call;  // as the client sent it
  std::string request_id;                            // of the copy; says nothing of the client's
  std::int64_t output_tokens_max = 0;                // as the primary's was bounded
  policy::comparison::pair pair;                     // with its primary side
  answer primary;
  std::optional<std::string> primary_body;  // of an answer that was not streamed: to be read yet
  bool comparable = true;                   // the primary's answer is there
};

// Tokens and price of a side, as its target said, or as far as was seen.
void count_usage(policy::comparison::side& to, const api::token_usage& usage, const api::shown_output& shown,
                 const limits::target_prices& prices);

// Times of a side whose content the gatherer saw.
void count_times(policy::comparison::side& to, const answer_gatherer& seen);

policy::comparison::side_end to_side_end(policy::failover::failure_kind kind, bool after_content) noexcept;

// Sends it and keeps the pair. Begins in a later turn of the loop than its caller.
task<void> run_copy(hub& owner, std::unique_ptr<copy_job> job);

}  // namespace weir::gateway::shadow
