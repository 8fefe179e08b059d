// Which target serves a request: filter by what the request needs, then pick. Pure: the same arguments give
// the same decision, so a decision can be replayed and explained offline. Any thread.
#pragma once

#include <cstdint>
#include <span>

#include "policy/types.hpp"

namespace weir::policy {

// Why a target cannot serve, or verdict::eligible.
verdict check_eligibility(const request_facts& facts, const target_view& target) noexcept;

// Round robin over the eligible targets: `turn` counts decisions of this model. With none eligible, picked is
// k_none and the candidates say why.
decision route(const request_facts& facts, std::span<const target_view> targets, std::uint64_t turn);

}  // namespace weir::policy
