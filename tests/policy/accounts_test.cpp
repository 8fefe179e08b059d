#include "policy/accounts.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>

namespace weir::policy {
namespace {

constexpr std::int64_t k_max = std::numeric_limits<std::int64_t>::max();

// 64 slots and a million tokens, a quarter of each kept for replication.
account_view books() {
  return {.slots = 64,
          .context_tokens = 1'048'576,
          .page_tokens = 768,
          .slots_reserved = 16,
          .context_tokens_reserved = 262'144};
}

}  // namespace

TEST_CASE("each account binds by itself, the others' room does not help") {
  const struct {
    const char* name;
    std::int64_t slots_used, context_used;
    account_need wants;
    shortage why;
  } rows[] = {
      {"empty", 0, 0, {1, 100'000}, shortage::none},
      {"full slots, free pages", 64, 0, {1, 1}, shortage::state_slots},
      {"free slots, full pages", 0, 1'048'576, {1, 1}, shortage::context_pages},
      {"the last slots are kept", 48, 0, {1, 1}, shortage::reserved_slots},
      {"one before", 47, 0, {1, 1}, shortage::none},
      {"two sequences at once", 47, 0, {2, 1}, shortage::reserved_slots},
      {"the last pages are kept", 0, 786'432, {1, 1}, shortage::reserved_pages},
      {"up to the last page that is not", 0, 785'664, {1, 768}, shortage::none},
      {"a token more", 0, 785'664, {1, 769}, shortage::reserved_pages},
      {"longer than all", 0, 0, {1, 2'000'000}, shortage::context_pages},
      {"more used than there is", 99, 0, {1, 1}, shortage::state_slots},
      {"nothing new", 0, 786'432, {1, 0}, shortage::none},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    auto has = books();
    has.slots_used = r.slots_used;
    has.context_tokens_used = r.context_used;
    CHECK(check_accounts(has, r.wants) == r.why);
  }
}

TEST_CASE("what is not known binds nobody") {
  CHECK(check_accounts({}, {1'000, 1'000'000'000}) == shortage::none);
  CHECK(check_accounts({.slots = 4, .slots_used = 4}, {1, 0}) == shortage::state_slots);
  CHECK(check_accounts({.context_tokens = 4, .context_tokens_used = 4}, {1, 1}) == shortage::context_pages);
}

TEST_CASE("numbers from outside overflow nothing") {
  account_view has{.slots = k_max, .slots_used = k_max, .context_tokens = k_max, .page_tokens = k_max};
  CHECK(check_accounts(has, {k_max, k_max}) == shortage::state_slots);
  has.slots_used = 0;
  has.slots_reserved = k_max;
  CHECK(check_accounts(has, {1, 1}) == shortage::reserved_slots);
  has.slots_reserved = 0;
  CHECK(check_accounts(has, {k_max, k_max}) == shortage::none);
  has.page_tokens = 768;
  CHECK(check_accounts(has, {1, k_max}) == shortage::none);
}

// Kimi K3: 449,372,160 B a checkpoint, on a link of 25 GB/s: 18.0 ms each.
TEST_CASE("a checkpoint waits for those on their way") {
  account_view has{.checkpoint_bytes = 449'372'160, .transfer_bytes_per_s = 25e9};
  CHECK(transfer_s(has) == Approx(0.0179748864));
  has.transfer_pending_bytes = 3 * 449'372'160.0;
  CHECK(transfer_s(has) == Approx(4 * 0.0179748864));
  CHECK(transfer_s({.checkpoint_bytes = 1}) == 0);
  CHECK(transfer_s({.transfer_bytes_per_s = 1}) == 0);
}

TEST_CASE("the fixed accounts and what they leave") {
  const account_view fits{.memory_bytes = 1'000, .weights_bytes = 700, .runtime_bytes = 100};
  CHECK_FALSE(is_overdrawn(fits));
  CHECK(bytes_for_state(fits) == 200);
  CHECK(used_share(fits, account::weights) == Approx(0.7));
  const account_view over{.memory_bytes = 1'000, .weights_bytes = 950, .runtime_bytes = 100};
  CHECK(is_overdrawn(over));
  CHECK(bytes_for_state(over) == 0);
  CHECK_FALSE(is_overdrawn({}));
  CHECK(is_overdrawn({.memory_bytes = 10, .weights_bytes = 1, .runtime_bytes = k_max}));
  CHECK(used_share({}, account::weights) < 0);
}

}  // namespace weir::policy
