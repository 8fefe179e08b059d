// What keys have used of their minutes, across a restart: a gateway that comes back does not start with full
// limits. Best effort: one small file beside the ledger, replaced whole, not synced; a missing or damaged one
// means that rates start anew. Times are Unix times, so a clock that jumped while the gateway was down can
// only change rates by what two minutes hold. The controlling thread only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "gateway/limits/account.hpp"

namespace weir::gateway::limits {

inline constexpr std::int64_t k_checkpoint_every_s = 2;
inline constexpr std::size_t k_checkpoint_bytes_max = std::size_t{64} << 20;

// `now_ns`: the clock of the cells; `now_unix_ms`: when that is.
std::string write_rates(const account_table& accounts, std::int64_t now_ns, std::int64_t now_unix_ms);
// False: not ours, nothing was changed.
bool read_rates(std::string_view text, account_table& accounts, std::int64_t now_ns,
                std::int64_t now_unix_ms);

class rate_checkpoint final {
 public:
  explicit rate_checkpoint(account_table& accounts) : accounts_(accounts) {}

  // From now on in this folder; takes over what is there.
  void open(const std::filesystem::path& folder);
  // At most every k_checkpoint_every_s; `last`: in any case.
  void tick(bool last = false);

 private:
  account_table& accounts_;
  std::filesystem::path file_;  // empty: none
  std::int64_t written_s_ = 0;
  bool nothing_written_ = false;  // the file says that nothing is used
};

}  // namespace weir::gateway::limits
