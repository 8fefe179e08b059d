// What a request tells the embedded engine: whose prefixes it may share, where a checkpoint is worth keeping,
// how to draw tokens, and when to end. Pure; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/constraint.hpp"
#include "engine/model/generation_config.hpp"
#include "engine/sampling_params.hpp"
#include "gateway/api/body_edit.hpp"
#include "gateway/api/options.hpp"

namespace weir::gateway::upstream {

struct engine_members {
  std::optional<std::string> scope;         // cache_salt
  std::vector<std::int32_t> checkpoint_at;  // weir_checkpoint_at, as far as the engine takes them
};

engine_members read_engine_members(std::span<const api::body_member> members);

// Those of the gateway, which knows of more prompts, and as many of the client's as the engine takes besides.
std::vector<std::int32_t> hints_of(const engine_members& terms, std::span<const std::int32_t> asked);

// `defaults`: of the model, for what the request does not name.
engine::sampling_params sampling_of(const api::generation_options& o,
                                    const engine::model::generation_config& defaults);

// What binds an answer is its form, where it has one, and else its least length. Null: nothing.
std::shared_ptr<const engine::token_constraint> bound_of(const api::generation_options& o,
                                                         std::shared_ptr<const engine::token_constraint> form,
                                                         std::int32_t vocab_size);

}  // namespace weir::gateway::upstream
