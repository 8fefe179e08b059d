// The words of a key's terms, as configuration, admin API and command line spell them. Pure; any thread.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "gateway/auth/key_terms.hpp"

namespace weir::gateway::auth {

std::string_view to_text(residency value) noexcept;       // any, local_only
std::string_view to_text(priority_class value) noexcept;  // batch, low, normal, high
std::string_view to_text(key_sharing value) noexcept;     // as_configured, tenant, key, site

std::span<const std::string_view> residency_words() noexcept;
std::span<const std::string_view> priority_words() noexcept;
std::span<const std::string_view> key_sharing_words() noexcept;

std::optional<residency> to_residency(std::string_view text) noexcept;
std::optional<priority_class> to_priority(std::string_view text) noexcept;
std::optional<key_sharing> to_key_sharing(std::string_view text) noexcept;

// What is wrong with a name, which goes into headers, logs and metric labels; empty: nothing. Printable ASCII
// without space, quote and backslash.
inline constexpr std::size_t k_name_bytes_max = 256;
std::string_view fault_of_name(std::string_view name) noexcept;

inline constexpr std::int64_t k_concurrent_max = 1'000'000;
inline constexpr std::int64_t k_weight_max = 1'000'000;

// Dollars as people write them, to thousand-millionths; at most k_usd_limit_max.
inline constexpr double k_usd_limit_max = 1e9;
usd_nano to_usd_nano(double usd) noexcept;

}  // namespace weir::gateway::auth
