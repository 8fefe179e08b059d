// A constraint on length alone: whatever tokens come, the sequence does not end before it has so many of
// them. Immutable; as token_constraint says.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/constraint.hpp"

namespace weir::engine::sample {

// REQUIRES: vocab_size > 0.
std::shared_ptr<const token_constraint> least_length(std::int64_t tokens, std::int32_t vocab_size);

}  // namespace weir::engine::sample
