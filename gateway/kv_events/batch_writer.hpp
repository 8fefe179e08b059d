// What the embedded engine's cache took up and dropped, as batches of KV events in vLLM's form: maps tagged
// with their type, in group 0 the attention pages (kind mla_attention), in group 1 the recurrent states (kind
// mamba). A state stands at the end of its event's tokens, which is also where the page block of the same
// hash ends. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "engine/cache/cache_event.hpp"

namespace weir::gateway::kv_events {

// Of one batch, before neighbours become one event: readers have limits of their own.
inline constexpr std::size_t k_written_events_max = 1024;
inline constexpr std::size_t k_written_tokens_max = 1 << 20;

// How many of the first make a batch: at least one, where there is any.
std::size_t batch_size(std::span<const engine::cache::cache_event> events);

// `events`: not none, at most batch_size() of them. Page blocks that follow one another become one event.
std::string write_batch(std::span<const engine::cache::cache_event> events, double time_s);

// That nothing told before holds any more.
std::string write_cleared_batch(double time_s);

}  // namespace weir::gateway::kv_events
