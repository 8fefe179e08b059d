// One accepted request on its way through the engine. Owned by the scheduler, touched by the worker thread
// alone. Invariant: 0 <= computed <= tokens.size(); while it runs, pages cover what the next step computes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/cache/prefix_cache.hpp"
#include "engine/engine.hpp"
#include "engine/sample/guide.hpp"
#include "engine/sample/sampler.hpp"

namespace weir::engine::scheduler {

// Where a prompt's state is to be kept.
struct cut {
  std::int32_t position;
  cache::checkpoint_kind kind;
};

struct sequence {
  sequence(sequence_id the_id, generate_request&& request, std::shared_ptr<event_sink>&& the_sink)
      : id(the_id),
        sink(std::move(the_sink)),
        sampler(std::move(request.sampling)),
        guide(request.constraint),
        tokens(std::move(request.prompt)),
        prompt_count(static_cast<std::int32_t>(tokens.size())),
        max_new_tokens(request.max_new_tokens),
        stop_tokens(std::move(request.stop_tokens)),
        scope(std::move(request.scope)),
        hints(std::move(request.checkpoint_at)) {}

  std::int32_t token_count() const noexcept { return static_cast<std::int32_t>(tokens.size()); }
  std::int32_t pending() const noexcept { return token_count() - computed; }
  std::int32_t generated() const noexcept { return token_count() - prompt_count; }
  // Positions that are computed at most: the last new token is never an input.
  std::int32_t positions_max() const noexcept { return prompt_count + max_new_tokens - 1; }
  bool stops_at(std::int32_t token) const {
    return std::find(stop_tokens.begin(), stop_tokens.end(), token) != stop_tokens.end();
  }

  sequence_id id;
  std::shared_ptr<event_sink> sink;
  sample::sampler sampler;
  sample::guide guide;
  std::vector<std::int32_t> tokens;  // prompt, then what was generated
  std::int32_t prompt_count;
  std::int32_t max_new_tokens;
  std::vector<std::int32_t> stop_tokens;
  std::int32_t tenant = -1;         // the scheduler's number for the scope
  std::string scope;                // who shares its prefixes and its turn
  std::vector<std::int32_t> hints;  // positions that the request wants kept
  std::int32_t computed = 0;        // tokens whose state and latents are stored
  std::int32_t computed_most = 0;   // the same before it last lost its memory
  std::int32_t cached = -1;         // prompt tokens that the cache gave at the first admission; -1 before
  bool started = false;             // the sink heard of it
  std::int32_t slot = -1;           // slab of its state; -1 while waiting
  std::vector<std::int32_t> pages;  // handles, in token order
  std::vector<cut> cuts;            // ascending; made at the first admission
};

}  // namespace weir::engine::scheduler
