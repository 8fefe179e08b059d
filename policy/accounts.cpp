#include "policy/accounts.hpp"

#include <algorithm>
#include <limits>

namespace weir::policy {

namespace {

std::int64_t whole_pages(std::int64_t tokens, std::int64_t page_tokens) noexcept {
  const std::int64_t page = std::max<std::int64_t>(page_tokens, 1);
  const std::int64_t pages = tokens / page + (tokens % page != 0 ? 1 : 0);
  return pages > std::numeric_limits<std::int64_t>::max() / page ? std::numeric_limits<std::int64_t>::max()
                                                                 : pages * page;
}

struct room {
  std::int64_t left = 0;        // to anybody
  std::int64_t unpromised = 0;  // and not kept for replication
};

room room_of(std::int64_t total, std::int64_t used, std::int64_t reserved) noexcept {
  const std::int64_t left = std::max<std::int64_t>(total - std::min(used, total), 0);
  return {left, std::max<std::int64_t>(left - std::min(reserved, left), 0)};
}

double share(std::int64_t part, std::int64_t whole) noexcept {
  if (whole <= 0) return -1;
  return std::clamp(static_cast<double>(part) / static_cast<double>(whole), 0.0, 1.0);
}

}  // namespace

shortage check_accounts(const account_view& has, const account_need& wants) noexcept {
  if (has.slots > 0) {
    const auto slots = room_of(has.slots, has.slots_used, has.slots_reserved);
    if (wants.sequences > slots.left) return shortage::state_slots;
    if (wants.sequences > slots.unpromised) return shortage::reserved_slots;
  }
  if (has.context_tokens > 0) {
    const auto context = room_of(has.context_tokens, has.context_tokens_used, has.context_tokens_reserved);
    const auto needed = whole_pages(wants.context_tokens, has.page_tokens);
    if (needed > context.left) return shortage::context_pages;
    if (needed > context.unpromised) return shortage::reserved_pages;
  }
  return shortage::none;
}

bool is_overdrawn(const account_view& has) noexcept {
  return has.memory_bytes > 0 &&
         has.weights_bytes > has.memory_bytes - std::min(has.runtime_bytes, has.memory_bytes);
}

std::int64_t bytes_for_state(const account_view& has) noexcept {
  if (has.memory_bytes <= 0 || is_overdrawn(has)) return 0;
  return has.memory_bytes - has.weights_bytes - has.runtime_bytes;
}

double transfer_s(const account_view& has) noexcept {
  if (has.transfer_bytes_per_s <= 0 || has.checkpoint_bytes <= 0) return 0;
  return (has.transfer_pending_bytes + static_cast<double>(has.checkpoint_bytes)) / has.transfer_bytes_per_s;
}

double used_share(const account_view& has, account of) noexcept {
  switch (of) {
    case account::weights:
      return share(has.weights_bytes, has.memory_bytes);
    case account::runtime:
      return share(has.runtime_bytes, has.memory_bytes);
    case account::state_slots:
      return share(has.slots_used, has.slots);
    case account::context_pages:
      return share(has.context_tokens_used, has.context_tokens);
    case account::replication:
      return std::max(share(has.slots_reserved, has.slots),
                      share(has.context_tokens_reserved, has.context_tokens));
    case account::transfer:
      return has.transfer_bytes_per_s > 0
                 ? std::min(1.0, has.transfer_pending_bytes / has.transfer_bytes_per_s)
                 : -1;
  }
  return -1;
}

std::string_view to_text(account of) noexcept {
  switch (of) {
    case account::weights:
      return "weights";
    case account::runtime:
      return "runtime";
    case account::state_slots:
      return "state_slots";
    case account::context_pages:
      return "context_pages";
    case account::replication:
      return "replication";
    case account::transfer:
      return "transfer";
  }
  return "unknown";
}

}  // namespace weir::policy
