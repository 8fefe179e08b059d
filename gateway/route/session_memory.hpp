// Where the sessions that clients name were served last. A hint and no more: entries are overwritten by
// others that fall on the same slot, and a prefix that an index knows counts for itself.
//
// Sessions are told apart by model and API key, so that no key learns anything of another's. Bounded: one
// word per slot, 512 KiB. Any thread, without locks.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "gateway/auth/key_store.hpp"

namespace weir::gateway::route {

class session_memory final {
 public:
  session_memory();

  struct last_served {
    std::uint16_t target = 0;        // target_mark() of its name
    std::int64_t prompt_tokens = 0;  // rounded down to 64
  };

  // What names a session; nothing for an empty name.
  std::optional<std::uint64_t> find_key(const auth::identity& caller, std::string_view model,
                                        std::string_view session) const;

  std::optional<last_served> find(std::uint64_t key) const noexcept;
  void remember(std::uint64_t key, const last_served& served) noexcept;

  static std::uint16_t target_mark(std::string_view target_name) noexcept;

 private:
  static constexpr std::size_t k_slots = 1 << 16;
  std::uint64_t seed_;
  std::unique_ptr<std::array<std::atomic<std::uint64_t>, k_slots>> slots_;  // check 32 | target 16 | units 16
};

}  // namespace weir::gateway::route
