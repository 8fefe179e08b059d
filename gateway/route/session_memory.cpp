#include "gateway/route/session_memory.hpp"

#include <xxhash.h>

#include <algorithm>
#include <random>
#include <string>

namespace weir::gateway::route {

namespace {

constexpr std::int64_t k_unit_tokens = 64;
constexpr std::int64_t k_units_max = 0xffff;

}  // namespace

session_memory::session_memory()
    : seed_(std::random_device{}() * 0x9e3779b97f4a7c15ULL),
      slots_(std::make_unique<std::array<std::atomic<std::uint64_t>, k_slots>>()) {}

std::optional<std::uint64_t> session_memory::find_key(const auth::identity& caller, std::string_view model,
                                                      std::string_view session) const {
  if (session.empty()) return std::nullopt;
  std::string text;
  for (const std::string_view part :
       {std::string_view(caller.tenant), std::string_view(caller.name), model}) {
    text.append(part).push_back('\0');
  }
  text.append(session);
  return XXH3_64bits_withSeed(text.data(), text.size(), seed_);
}

std::optional<session_memory::last_served> session_memory::find(std::uint64_t key) const noexcept {
  const std::uint64_t word = (*slots_)[key % k_slots].load(std::memory_order_relaxed);
  if (word == 0 || word >> 32 != key >> 32) return std::nullopt;
  return last_served{static_cast<std::uint16_t>(word >> 16),
                     static_cast<std::int64_t>(word & 0xffff) * k_unit_tokens};
}

void session_memory::remember(std::uint64_t key, const last_served& served) noexcept {
  const auto units = static_cast<std::uint64_t>(
      std::clamp<std::int64_t>(served.prompt_tokens / k_unit_tokens, 0, k_units_max));
  const std::uint64_t word = (key >> 32 << 32) | std::uint64_t{served.target} << 16 | units;
  (*slots_)[key % k_slots].store(word, std::memory_order_relaxed);
}

std::uint16_t session_memory::target_mark(std::string_view target_name) noexcept {
  return static_cast<std::uint16_t>(XXH3_64bits(target_name.data(), target_name.size()));
}

}  // namespace weir::gateway::route
