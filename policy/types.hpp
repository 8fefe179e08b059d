// What a routing decision sees and says: plain values, copied out of the gateway's state before the decision
// is made. Immutable while a decision runs; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "policy/accounts.hpp"
#include "policy/outcomes.hpp"

namespace weir::policy {

inline constexpr std::size_t k_no_target = static_cast<std::size_t>(-1);

// The parts of the API that a target may speak or not.
enum class endpoint : std::uint8_t { chat, completions, embeddings, responses, messages, count_tokens };

// One bit for each endpoint.
using endpoint_set = std::uint8_t;
constexpr endpoint_set set_of(endpoint one) noexcept {
  return static_cast<endpoint_set>(1U << static_cast<unsigned>(one));
}

// What a request needs of a target.
struct request_facts {
  endpoint asks = endpoint::chat;
  std::int64_t prompt_tokens = 0;           // 0 = not known yet
  bool prompt_is_estimate = false;          // then it rules no target out
  std::int64_t output_tokens_min = 1;       // tokens that must fit behind the prompt
  std::int64_t output_tokens_expected = 0;  // for price and inter-token time; 0 = not known
  std::int64_t sequences = 1;               // answers at once
  bool needs_image = false;
  bool needs_structured_output = false;      // response_format json_object or json_schema
  bool needs_forced_tool = false;            // tool_choice required or named
  bool local_only = false;                   // the key's residency: no hosted target
  std::size_t session_target = k_no_target;  // where the client's session was served last
};

enum class target_kind : std::uint8_t { replica, engine, hosted };

// How fast a target works: learnt from its answers, starting from configuration. A rate of 0 is not known.
struct speed_view {
  double prefill_tokens_per_s = 0;
  double ttft_base_s = 0;  // time to first token without any prefill work: connection, restore, one step
  double itl_base_s = 0;   // time between tokens of a lone sequence
  double itl_per_sequence_s = 0;  // what each running sequence adds to it
  double spread = 0.5;            // standard deviation of ln(observed TTFT / predicted)
};

// What a target has to do, our own dispatches counted at once.
struct load_view {
  double pending_prefill_tokens = 0;  // dispatched, first token not seen yet
  std::int32_t running = 0;
  double overdue_s = 0;  // pending_work::overdue_s()
};

struct price_view {
  double usd_per_s = 0;             // self-hosted: amortised cost of a second of the whole replica's work
  double fresh_usd_per_token = 0;   // hosted
  double cached_usd_per_token = 0;  // hosted
  double output_usd_per_token = 0;  // hosted
};

// Why a target is passed over although it could serve.
enum class aside : std::uint8_t {
  no,
  failing,  // failed lately, or this very request
  warming,  // failed a while ago: takes its share of requests step by step
};

// One target as it stands now.
struct target_view {
  std::string_view name;
  target_kind kind = target_kind::replica;
  std::int64_t context_tokens = 0;  // 0 = not known
  bool ready = false;
  bool full = false;                                                    // at its limit of requests at once
  std::int32_t free_places = std::numeric_limits<std::int32_t>::max();  // up to that limit
  bool excluded = false;                                                // by an operator's rule
  aside set_aside = aside::no;
  endpoint_set endpoints = set_of(endpoint::chat) | set_of(endpoint::completions);
  bool takes_images = false;
  bool structured_output = false;
  bool forced_tools = false;
  speed_view speed;
  load_view load;
  price_view price;
  account_view accounts;
  double quality = 1;      // weight of a result of this target
  outcome_views outcomes;  // what became of results, by class
};

// What kind of knowledge a prediction of reuse rests on, weakest first. `session`: nothing but that the
// client says it goes on with what this target served before.
enum class evidence : std::uint8_t { none, session, restored, predicted, observed, confirmed };

// What a target probably holds of one prompt.
struct prefix_view {
  std::int64_t page_tokens = 0;      // contiguous from the start
  std::int64_t reusable_tokens = 0;  // up to the deepest usable checkpoint; at most page_tokens
  evidence from = evidence::none;
};

enum class verdict : std::uint8_t {
  chosen,
  eligible,              // could serve, another was picked
  not_ready,             // loading, failed or draining
  at_capacity,           // as many requests run as it takes
  no_state_slot,         // every slot of recurrent state is taken, whatever room there is for context
  no_context_pages,      // the request's context has no room, whatever slots there are
  kept_for_replication,  // what is left of either is kept for replicas of state
  no_endpoint,           // the target does not speak this part of the API
  no_images,             // the request holds images, the target takes none
  no_structured_output,  // the target cannot guarantee a JSON format
  no_forced_tools,       // the target cannot guarantee a tool call
  context_too_small,     // prompt and output do not fit
  rule,                  // an operator's rule excludes it
  residency,             // hosted, and the key's traffic may not leave
  too_expensive,         // above the rule's ceiling
  failing,               // aside::failing
  warming,               // aside::warming
  overflow_only,         // serves only what no replica can
};

// What was predicted of one target, in the order given.
struct candidate {
  std::string_view name;
  verdict why = verdict::eligible;
  prefix_view prefix;
  double ttft_s = 0;
  double itl_s = 0;
  double contract_probability = 1;
  double cost_usd = 0;  // of the request, on that target
  double score = 0;     // expected cost of a result, latency included; least wins
};

// The pick and the reason for every target.
struct decision {
  static constexpr std::size_t k_none = k_no_target;
  std::size_t picked = k_none;  // index into the targets given
  std::vector<candidate> candidates;
};

std::string_view to_text(verdict why) noexcept;
std::string_view to_text(endpoint of) noexcept;
std::string_view to_text(evidence from) noexcept;

}  // namespace weir::policy
