// Parts of a snapshot that go on over a reload where their configuration is the same: budgets of second
// attempts, and where traces go. The thread that builds snapshots.
#pragma once

#include <expected>
#include <memory>
#include <string>

#include "gateway/fleet.hpp"

namespace weir::gateway {

std::shared_ptr<policy::failover::share_budget> take_over_retries(const config::failover_config& terms,
                                                                  const snapshot* previous);

// In money or, where nothing has a price, in tokens: of one model, so that they do not mix. Null: there are
// none.
std::shared_ptr<policy::failover::share_budget> take_over_hedges(const config::failover_config& terms,
                                                                 const std::string& model,
                                                                 const snapshot* previous);

// The error is a sentence for the operator; no secret is in it.
std::expected<trace::tracer, std::string> open_tracer(const config::tracing_config& terms,
                                                      const snapshot* previous, fleet_services& services);

// The engine that a target of ours asks for.
upstream::engine_upstream_config to_engine_config(const config::target_config& target);

// Says so where a pool that holds less than one sequence of the model's context cuts it to `context_tokens`.
void tell_context(const config::target_config& target, std::int32_t context_tokens);

// What the index follows of an embedded engine's cache. Nothing where its model has no other target with a
// cache to choose between, so that prompts need no keys; where it answers for several models, each of which
// has its own keys, or reads prompts with another tokenizer than they; nor behind gateways, whose salts are
// none of ours.
config::cache_config own_cache(const config::gateway_config& config, const config::target_config& target,
                               const upstream::engine_upstream& engine,
                               const engine::text::tokenizer& of_prompts);

// Where the engine's experts are too many for series of their own, the log says so.
void check_expert_series(const config::target_config& target, const upstream::engine_upstream& engine);

}  // namespace weir::gateway
