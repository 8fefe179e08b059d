// API keys as digests: HMAC-SHA-256 of the presented key under the server's secret, looked up by the full
// digest. The key itself is never stored, logged or compared byte by byte, so neither a leaked file nor
// timing reveals one. A store is immutable once made; any thread.
#pragma once

#include <expected>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gateway/auth/identity.hpp"
#include "gateway/auth/key_terms.hpp"
#include "gateway/config/config.hpp"

namespace weir::gateway::limits {
class account_table;
}

namespace weir::gateway::auth {

inline constexpr std::size_t k_key_bytes_max = 512;    // a presented key; longer is unknown
inline constexpr std::size_t k_secret_bytes_min = 32;  // of the server secret
inline constexpr std::size_t k_secret_bytes_max = 4096;

class key_store final {
 public:
  // `records` are all keys that open, revoked ones left out; `accounts` outlives the making. Of two records
  // with one digest the first counts.
  key_store(std::string secret, std::span<const key_record> records,
            const std::function<std::int64_t(std::string_view tenant)>& weight_of,
            limits::account_table& accounts);
  key_store() = default;  // no key opens

  // The caller of a presented key; null: not known, or the digest before a rotation whose time is over.
  const identity* find(std::string_view presented_key, std::int64_t now_s) const;

 private:
  struct first_bytes {
    std::size_t operator()(const digest& d) const noexcept;
  };
  struct entry {
    identity who;
    std::int64_t until_s = 0;  // 0: for good
  };
  std::string secret_;
  std::unordered_map<digest, entry, first_bytes> keys_;
};

// Who calls with the key of this record.
identity identity_of(const key_record& key, std::int64_t tenant_weight, limits::account_table& accounts);

// The keys of the configuration file as records. The error says which entry and what to do.
std::expected<std::vector<key_record>, std::string> records_of(const config::auth_config& config);

digest key_digest(std::string_view secret, std::string_view key);
std::string to_hex(const digest& d);
std::optional<digest> from_hex(std::string_view hex);

// The secret in `file`; it must be private to its owner.
std::expected<std::string, std::string> read_secret(const std::filesystem::path& file);

// Writes a fresh random secret to `file` (0600), which must not exist.
std::expected<void, std::string> create_secret(const std::filesystem::path& file);

// The prefix and 43 random characters: 256 bits.
std::string generate_key(std::string_view prefix = "weir-");

// The prefix and 24 random hex digits: the id of a key.
std::string random_id(std::string_view prefix);

}  // namespace weir::gateway::auth
