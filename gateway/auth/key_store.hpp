// API keys as digests: HMAC-SHA-256 of the presented key under the server's secret, looked up by the full
// digest. The key itself is never stored, logged or compared byte by byte, so neither a leaked file nor
// timing reveals one. Immutable once made; any thread.
#pragma once

#include <expected>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gateway/auth/key_terms.hpp"
#include "gateway/config/config.hpp"

namespace weir::gateway::auth {

inline constexpr std::size_t k_key_bytes_max = 512;    // a presented key; longer is unknown
inline constexpr std::size_t k_secret_bytes_min = 32;  // of the server secret
inline constexpr std::size_t k_secret_bytes_max = 4096;

struct identity {
  std::string name;  // of the key, for logs and metrics
  std::string tenant;
  std::vector<std::string> models;  // empty = all

  bool may_use(std::string_view model) const;
};

// Of clients on this machine where they need no key.
identity loopback_identity();

class key_store final {
 public:
  // Keys and secret are read once. The error says which file or entry and what to do; it never holds a
  // secret.
  static std::expected<key_store, std::string> make(const config::auth_config& config);

  const identity* find(std::string_view presented_key) const;

 private:
  struct first_bytes {
    std::size_t operator()(const digest& d) const noexcept;
  };
  std::string secret_;
  std::unordered_map<digest, identity, first_bytes> keys_;
};

digest key_digest(std::string_view secret, std::string_view key);
std::string to_hex(const digest& d);
std::optional<digest> from_hex(std::string_view hex);

// The secret in `file`; it must be private to its owner.
std::expected<std::string, std::string> read_secret(const std::filesystem::path& file);

// Writes a fresh random secret to `file` (0600), which must not exist.
std::expected<void, std::string> create_secret(const std::filesystem::path& file);

// "weir-" and 43 random characters: 256 bits.
std::string generate_key();

}  // namespace weir::gateway::auth
