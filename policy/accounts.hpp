// What a replica's memory and links are promised to, as six accounts that do not stand for one another:
// weights and runtime are fixed; every running sequence holds a slot of recurrent state (KDA), whatever its
// length; its context takes pages (MLA), by its length; some of both is kept free for state that is
// replicated from elsewhere; and a checkpoint that has to be fetched takes its time on the link. A replica
// may have pages and no slot, or slots and no page, so one number for "load" admits requests that cannot run.
//
// Pure. Tokens and slots are of the whole replica; a total of 0 is not known and binds nobody.
#pragma once

#include <cstdint>
#include <string_view>

namespace weir::policy {

enum class account : std::uint8_t { weights, runtime, state_slots, context_pages, replication, transfer };
inline constexpr int k_accounts = 6;

// A target's books as they stand now.
struct account_view {
  // Fixed, in bytes; 0: not known.
  std::int64_t memory_bytes = 0;
  std::int64_t weights_bytes = 0;
  std::int64_t runtime_bytes = 0;
  // Slots, one a sequence, and context in tokens.
  std::int64_t slots = 0;
  std::int64_t slots_used = 0;
  std::int64_t context_tokens = 0;
  std::int64_t context_tokens_used = 0;
  std::int64_t page_tokens = 1;  // context is taken in multiples of it
  // Kept free for replicas of state.
  std::int64_t slots_reserved = 0;
  std::int64_t context_tokens_reserved = 0;
  // Of a checkpoint that comes over the link; 0: nothing does.
  std::int64_t checkpoint_bytes = 0;
  double transfer_bytes_per_s = 0;
  double transfer_pending_bytes = 0;
};

// What a request would take.
struct account_need {
  std::int64_t sequences = 1;
  std::int64_t context_tokens = 0;  // new ones: of the prompt what is not held there, and of the answer
};

enum class shortage : std::uint8_t {
  none,
  state_slots,     // no slot, though there may be pages
  context_pages,   // no pages, though there may be slots
  reserved_slots,  // those left are kept for replication
  reserved_pages,
};

// Which account has no room for the request. Where several have none the first of them binds.
shortage check_accounts(const account_view& has, const account_need& wants) noexcept;

// Whether the fixed accounts alone exceed the memory: the configuration cannot be right.
bool is_overdrawn(const account_view& has) noexcept;

// What memory is left for state and context, in bytes; 0: not known.
std::int64_t bytes_for_state(const account_view& has) noexcept;

// How long a checkpoint takes until it is there, behind those on their way; 0: none has to come.
double transfer_s(const account_view& has) noexcept;

// How much of an account is taken, [0, 1]; below 0: not known.
double used_share(const account_view& has, account of) noexcept;

std::string_view to_text(account of) noexcept;

}  // namespace weir::policy
