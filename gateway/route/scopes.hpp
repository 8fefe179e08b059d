// Who shares cached prompts with whom. A scope's name never leaves the gateway: chains of keys are seeded
// with it and the site's secret salt, and upstream requests carry a cache_salt derived from both, so that
// neither routing nor a replica's cache lets one tenant learn of another's prompts. A client's own cache_salt
// narrows its scope and is not sent on. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <expected>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gateway/auth/key_store.hpp"
#include "prefix_index/block_key.hpp"

namespace weir::gateway::route {

inline constexpr std::size_t k_site_salt_bytes = 32;
inline constexpr std::size_t k_known_scopes_max = 65'536;  // of which replicas' events are understood

enum class sharing : std::uint8_t { tenant, key, site };

// What a key's own word makes of the general rule.
sharing sharing_of(auth::key_sharing own, sharing general) noexcept;

class scope_table final {
 public:
  explicit scope_table(std::string site_salt) : salt_(std::move(site_salt)) {}

  struct scope {
    prefix_index::block_key root;
    std::string cache_salt;
  };
  // The scope of a caller's requests to a model. `client_salt`: the request's own cache_salt, or empty.
  scope find(const auth::identity& caller, sharing how, std::string_view model, std::string_view client_salt);

  // Makes the events of a caller's requests understood before its first request here.
  void learn(const auth::identity& caller, sharing how) { find(caller, how, {}, {}); }

  // The root of a model whose replicas the operator declares shared by all.
  prefix_index::block_key shared_root(std::string_view model, std::string_view adapter) const;

  // The root of chains whose requests carried this salt; nothing for a salt that is not ours.
  std::optional<prefix_index::block_key> root_of(std::string_view model, std::string_view adapter,
                                                 std::string_view cache_salt) const;

 private:
  prefix_index::block_key root(std::string_view model, std::string_view adapter, std::string_view name) const;
  void remember(const std::string& cache_salt, const std::string& name);  // under mutex_

  const std::string salt_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::string> names_;  // by cache_salt
  std::unordered_map<std::string, scope> found_;        // by name and model, without client salts
  std::deque<std::string> order_;                       // oldest first
};

// The site's salt in DIR/salt, made (0600) where it is not there; without a folder a random one. The error is
// a sentence.
std::expected<std::string, std::string> load_site_salt(const std::filesystem::path& dir);

}  // namespace weir::gateway::route
