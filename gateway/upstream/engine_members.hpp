// What a request's body members tell the embedded engine: whose prefixes it may share, and where a checkpoint
// is worth keeping. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gateway/api/body_edit.hpp"

namespace weir::gateway::upstream {

struct engine_members {
  std::optional<std::string> scope;         // cache_salt
  std::vector<std::int32_t> checkpoint_at;  // weir_checkpoint_at, as far as the engine takes them
};

engine_members read_engine_members(std::span<const api::body_member> members);

// Those of the gateway, which knows of more prompts, and as many of the client's as the engine takes besides.
std::vector<std::int32_t> hints_of(const engine_members& terms, std::span<const std::int32_t> asked);

}  // namespace weir::gateway::upstream
