#include "gateway/auth/key_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace weir::gateway::auth {

namespace {

// In the order of the enums.
constexpr std::array<std::string_view, 2> k_residencies{"any", "local_only"};
constexpr std::array<std::string_view, 4> k_priorities{"batch", "low", "normal", "high"};
constexpr std::array<std::string_view, 4> k_sharings{"as_configured", "tenant", "key", "site"};

template <class Enum, std::size_t N>
std::optional<Enum> find(const std::array<std::string_view, N>& words, std::string_view text) noexcept {
  const auto found = std::find(words.begin(), words.end(), text);
  if (found == words.end()) return std::nullopt;
  return static_cast<Enum>(found - words.begin());
}

}  // namespace

std::string_view to_text(residency value) noexcept {
  return k_residencies[static_cast<std::size_t>(value)];
}
std::string_view to_text(priority_class value) noexcept {
  return k_priorities[static_cast<std::size_t>(value)];
}
std::string_view to_text(key_sharing value) noexcept {
  return k_sharings[static_cast<std::size_t>(value)];
}

std::span<const std::string_view> residency_words() noexcept {
  return k_residencies;
}
std::span<const std::string_view> priority_words() noexcept {
  return k_priorities;
}
std::span<const std::string_view> key_sharing_words() noexcept {
  return k_sharings;
}

std::optional<residency> to_residency(std::string_view text) noexcept {
  return find<residency>(k_residencies, text);
}
std::optional<priority_class> to_priority(std::string_view text) noexcept {
  return find<priority_class>(k_priorities, text);
}
std::optional<key_sharing> to_key_sharing(std::string_view text) noexcept {
  return find<key_sharing>(k_sharings, text);
}

std::string_view fault_of_name(std::string_view name) noexcept {
  static_assert(k_name_bytes_max == 256);
  if (name.empty()) return "needs a value";
  if (name.size() > k_name_bytes_max) return "longer than 256 bytes";
  const bool plain = std::all_of(name.begin(), name.end(),
                                 [](char c) { return c > 0x20 && c < 0x7f && c != '"' && c != '\\'; });
  return plain ? "" : "only printable ASCII without space, quote and backslash";
}

usd_nano to_usd_nano(double usd) noexcept {
  return std::llround(std::clamp(usd, 0.0, k_usd_limit_max) * static_cast<double>(policy::limits::k_usd));
}

}  // namespace weir::gateway::auth
