// What a ledger's process says over a pipe before it does something, and when it was told that it is durable.
#pragma once

#include <cstdint>
#include <type_traits>

namespace weir::gateway::ledger {

enum class crash_event_kind : std::uint32_t {
  opened,
  reserve,   // number: which one of this run, from 0; amount
  reserved,  // number
  settle,    // number; amount
  settled,   // number
  put,       // number: key; amount: its generation; a revoked one is final
  put_done,  // number, amount
  refused,   // the ledger refused or failed: a fault of the test, there is room for all
};

// 24 bytes: less than PIPE_BUF, so it is written whole or not at all.
struct crash_event {
  crash_event_kind kind = crash_event_kind::opened;
  std::uint32_t number = 0;
  std::int64_t amount = 0;
  std::uint32_t account = 0;
  std::uint32_t revoked = 0;
};
static_assert(sizeof(crash_event) == 24 && std::is_trivially_copyable_v<crash_event>);

inline constexpr std::uint32_t k_crash_accounts = 5;
inline constexpr std::uint32_t k_crash_keys = 8;

}  // namespace weir::gateway::ledger
