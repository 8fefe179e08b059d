// One request's part of what its key may use: taken before it runs, settled with what it really used, given
// back where it failed.
//
//   take_request()   a request of this minute, and one of those that may run at once
//   take_tokens()    prompt and the most it may answer, of this minute's tokens and of the budgets, whose
//                    reservation is on the disk when it returns
//   sending()        a target gets it: once sent and not refused, its prompt is charged, however it ends
//   note()           what the target says was used, and what was seen of its answer
//   destructor       settles; a request that no target worked at gives tokens and money back
//
// Where limits are shared by several gateways, each step takes of what the store has leased to this one, and
// waits for it at most a moment; the local cells are kept up beside it, for the time when the store is away.
//
// A key without limits pays for none of it. Thread rule: the request's I/O thread; end_soon() from any.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "gateway/api/response_writer.hpp"
#include "gateway/auth/key_store.hpp"
#include "gateway/errc.hpp"
#include "gateway/http/exchange.hpp"
#include "gateway/ledger/ledger.hpp"
#include "gateway/limits/account.hpp"
#include "gateway/task.hpp"
#include "policy/limits/price.hpp"

namespace weir::gateway::shared {
class hub;
}

namespace weir::gateway::limits {

class shared_share;

inline constexpr std::chrono::milliseconds k_commit_wait{5000};  // a disk that takes longer counts as gone

// The price list of one target.
struct target_prices {
  std::vector<policy::limits::price_tier> tiers;  // empty: nothing is known, everything is free and marked
  policy::limits::counting counted = policy::limits::counting::cached_included;
};

// The most that a request can use.
struct need {
  std::int64_t prompt_tokens = 0;
  std::int64_t output_tokens = 0;          // of all choices
  bool estimate = false;                   // no tokenizer: the prompt's tokens are its bytes
  std::span<const target_prices> dearest;  // of every target that may serve it
};

// At most k_tokens_max, so that sums stay in range. REQUIRES: neither is negative.
constexpr std::int64_t product_of(std::int64_t tokens, std::int64_t times) noexcept {
  constexpr std::int64_t most = policy::limits::k_tokens_max;
  return times > 0 && tokens > most / times ? most : tokens * times;
}

// The most that it would cost at the dearest target; 0: nothing has a price.
policy::limits::usd_nano dearest_price(const need& most) noexcept;

// Of the targets that may have a request at once: the second beside the first.
enum class course : std::uint8_t { main, beside };

class ticket final : public running_request {
 public:
  // All outlive the ticket. `money` may be null: then no key has a budget; `hub` too: then limits are this
  // gateway's alone.
  ticket(const auth::identity& caller, ledger::ledger* money, shared::hub* hub, http::exchange& exchange,
         io_executor executor);
  ~ticket() override;
  ticket(const ticket&) = delete;
  ticket& operator=(const ticket&) = delete;

  task<result<void>> take_request();
  task<result<void>> take_tokens(const need& most);

  // Whether the key has a budget: then the target must not answer with more than was reserved.
  bool has_budget() const noexcept { return terms_.limits.has_budget(); }

  // Before a target is tried behind one that worked: what that one used is settled, and as much as before set
  // aside anew. An error: the request must not be sent again.
  task<result<void>> renew();
  // The next target to try; what those before it worked at stays charged. `prices`: its own; outlive the
  // ticket. The result is for upstream::dispatch::sent.
  bool* sending(const target_prices& prices, course on = course::main) noexcept;
  // The target refused it behind start(): nothing is charged for it.
  void target_refused(course on = course::main) noexcept { use_of(on).sent = false; }
  // The last report wins. Without one, or as far as it cannot be meant, the prompt counts as it was set
  // aside, the output by what was shown: an event as a token; of a whole answer each byte, up to what was set
  // aside.
  void note(const api::token_usage& usage, const api::shown_output& shown, course on = course::main) noexcept;
  // The target beside is the one that answers: it is the main one from here on.
  void beside_won() noexcept { std::swap(uses_[0], uses_[1]); }

  // For every answer of a key with limits.
  http::header_list headers() const;

  bool counted() const noexcept { return account_ != nullptr; }
  // What was used until now costs so much, as far as it has a price.
  policy::limits::charge cost() const noexcept;

  void end_soon() noexcept override;

 private:
  struct revocation;
  result<void> enter();
  task<result<bool>> take_shared_request();
  task<result<bool>> take_shared_tokens(std::int64_t units);
  task<result<void>> take_of_minute(std::int64_t units);
  task<result<void>> reserve_money(policy::limits::usd_nano amount);
  void settle_money() noexcept;
  task<result<ledger::reservation_id>> reserve(policy::limits::usd_nano amount,
                                               ledger::copyable_done committed);
  struct target_use {
    bool sent = false;
    api::token_usage reported;
    api::shown_output shown;
    const target_prices* prices = nullptr;
  };
  target_use& use_of(course on) noexcept { return uses_[static_cast<std::size_t>(on)]; }
  policy::limits::usage used(const target_use& at) const noexcept;
  void add_cost(const target_use& at, policy::limits::charge& to) const noexcept;
  void settle_tokens(std::int64_t used_tokens) noexcept;

  const auth::key_terms& terms_;
  account* account_;  // null: a caller without limits
  ledger::ledger* money_;
  const io_executor executor_;
  const std::string_view request_id_;
  const std::shared_ptr<revocation> revocation_;
  std::unique_ptr<shared_share> shared_;  // null: limits are this gateway's alone
  bool entered_ = false;
  std::int64_t prompt_tokens_ = 0;  // set aside, as output_tokens_
  std::int64_t output_tokens_ = 0;
  std::array<target_use, 2> uses_;  // of the targets that have it now
  // Of those before them.
  std::int64_t earlier_tokens_ = 0;
  policy::limits::charge earlier_cost_;
  std::optional<policy::limits::taken> tokens_;
  std::optional<ledger::reservation_id> reservation_;
  policy::limits::usd_nano reserved_ = 0;  // by it, or the one before
  policy::limits::usd_nano settled_ = 0;   // of cost(), with reservations before it
  std::optional<policy::limits::level> request_level_;
  std::optional<policy::limits::level> token_level_;
};

}  // namespace weir::gateway::limits
