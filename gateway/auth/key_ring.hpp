// All keys that open right now: those of the configuration file, which only the file changes, and those that
// the admin API made, which live in the ledger. A key may not be in both. Any thread; readers take an
// immutable store.
#pragma once

#include <expected>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/auth/key_store.hpp"

namespace weir::gateway::auth {

class key_ring final {
 public:
  // `accounts` outlives the ring.
  explicit key_ring(limits::account_table& accounts) : accounts_(accounts) {}

  // The file's keys and secret; on an error, which names the key or the secret's file, nothing changes.
  // Running requests of keys that are no longer there end.
  std::expected<void, std::string> configure(const config::auth_config& config);

  // What the ledger holds now, whole. No record has a name or digest of the
  // file: it would have been refused, or the file.
  void set_made(std::vector<key_record> records, std::vector<tenant_record> tenants);

  // Waits for no change that is under way.
  std::shared_ptr<const key_store> store() const;
  std::optional<identity> named(std::string_view name) const;  // of a key that opens
  std::vector<key_record> configured() const;
  std::vector<key_record> all() const;  // that open
  std::vector<tenant_record> configured_tenants() const;
  // Why a new record cannot be: its name or digest is taken. Nothing: it can, and until the next set_made()
  // or unclaim() no configuration may take it either. One claim at a time.
  std::optional<std::string> claim(const key_record& record);
  void unclaim();
  // Digest of a key under the server's secret; nothing without a secret.
  std::optional<digest> digest_of(std::string_view key) const;

 private:
  // Under mutex_. Digests under another secret than `wanted` are of no use any more.
  std::expected<void, std::string> check_secret(const std::string& wanted, const config::auth_config& config,
                                                const std::vector<key_record>& records) const;
  void rebuild();                                         // under mutex_
  std::int64_t weight_of(std::string_view tenant) const;  // under mutex_

  limits::account_table& accounts_;
  mutable std::mutex mutex_;
  std::string secret_;
  std::vector<key_record> configured_;
  std::vector<key_record> made_;
  std::vector<key_record> claimed_;                // at most one, on its way to the ledger
  std::vector<tenant_record> configured_tenants_;  // come before those of the ledger
  std::vector<tenant_record> made_tenants_;
  std::shared_ptr<const key_store> last_store_;  // before store_
  mutable std::mutex store_mutex_;               // held for one copy, inside mutex_
  std::shared_ptr<const key_store> store_ = std::make_shared<const key_store>();  // under store_mutex_
};

}  // namespace weir::gateway::auth
