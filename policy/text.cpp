#include "policy/types.hpp"

namespace weir::policy {

std::string_view to_text(verdict why) noexcept {
  switch (why) {
    case verdict::chosen:
      return "chosen";
    case verdict::eligible:
      return "eligible";
    case verdict::not_ready:
      return "not_ready";
    case verdict::at_capacity:
      return "at_capacity";
    case verdict::no_state_slot:
      return "no_state_slot";
    case verdict::no_context_pages:
      return "no_context_pages";
    case verdict::kept_for_replication:
      return "kept_for_replication";
    case verdict::no_endpoint:
      return "no_endpoint";
    case verdict::no_images:
      return "no_images";
    case verdict::no_structured_output:
      return "no_structured_output";
    case verdict::no_forced_tools:
      return "no_forced_tools";
    case verdict::context_too_small:
      return "context_too_small";
    case verdict::rule:
      return "rule";
    case verdict::residency:
      return "residency";
    case verdict::too_expensive:
      return "too_expensive";
    case verdict::failing:
      return "failing";
    case verdict::warming:
      return "warming";
    case verdict::overflow_only:
      return "overflow_only";
  }
  return "unknown";
}

std::string_view to_text(endpoint of) noexcept {
  switch (of) {
    case endpoint::chat:
      return "chat";
    case endpoint::completions:
      return "completions";
    case endpoint::embeddings:
      return "embeddings";
    case endpoint::responses:
      return "responses";
    case endpoint::messages:
      return "messages";
    case endpoint::count_tokens:
      return "count_tokens";
  }
  return "unknown";
}

std::string_view to_text(evidence from) noexcept {
  switch (from) {
    case evidence::none:
      return "none";
    case evidence::session:
      return "session";
    case evidence::restored:
      return "restored";
    case evidence::predicted:
      return "predicted";
    case evidence::observed:
      return "observed";
    case evidence::confirmed:
      return "confirmed";
  }
  return "unknown";
}

}  // namespace weir::policy
