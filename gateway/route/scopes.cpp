#include "gateway/route/scopes.hpp"

#include <fmt/format.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>

#include "gateway/auth/private_file.hpp"

namespace weir::gateway::route {

namespace {

constexpr std::size_t k_salt_file_bytes_max = 4096;
// 128 bits: as much as nobody can guess, and short enough to travel with each request.
constexpr std::size_t k_cache_salt_digits = 32;

// The kind in front keeps a tenant apart from a key of the same name.
std::string scope_name(const auth::identity& caller, sharing how, std::string_view client_salt) {
  std::string out;
  switch (how) {
    case sharing::tenant:
      out = caller.tenant.empty() ? "key:" + caller.name : "tenant:" + caller.tenant;
      break;
    case sharing::key:
      out = "key:" + caller.name;
      break;
    case sharing::site:
      out = "site";
      break;
  }
  if (client_salt.empty()) return out;
  out += '\0';
  return out.append(client_salt);
}

std::expected<std::string, std::string> random_salt() {
  std::array<unsigned char, k_site_salt_bytes> bytes;
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    return std::unexpected("the system has no random bytes for the routing salt");
  }
  return std::string(bytes.begin(), bytes.end());
}

}  // namespace

sharing sharing_of(auth::key_sharing own, sharing general) noexcept {
  switch (own) {
    case auth::key_sharing::as_configured:
      return general;
    case auth::key_sharing::tenant:
      return sharing::tenant;
    case auth::key_sharing::key:
      return sharing::key;
    case auth::key_sharing::site:
      return sharing::site;
  }
  return general;
}

prefix_index::block_key scope_table::root(std::string_view model, std::string_view adapter,
                                          std::string_view name) const {
  return prefix_index::root_key(
      {.salt = std::as_bytes(std::span(salt_)), .model = model, .adapter = adapter, .scope = name});
}

scope_table::scope scope_table::find(const auth::identity& caller, sharing how, std::string_view model,
                                     std::string_view client_salt) {
  const std::string name = scope_name(caller, how, client_salt);
  std::string known;
  if (client_salt.empty()) {
    known.reserve(name.size() + 1 + model.size());
    known.append(name).append(1, '\0').append(model);
    const std::lock_guard lock(mutex_);
    if (const auto at = found_.find(known); at != found_.end()) {
      remember(at->second.cache_salt, name);  // events name it as long as its requests come
      return at->second;
    }
  }
  std::string cache_salt = auth::to_hex(auth::key_digest(salt_, "cache_salt:" + name));
  cache_salt.resize(k_cache_salt_digits);
  scope out{root(model, {}, name), std::move(cache_salt)};
  const std::lock_guard lock(mutex_);
  remember(out.cache_salt, name);
  if (!known.empty()) {
    if (found_.size() >= k_known_scopes_max) found_.clear();
    found_.emplace(std::move(known), out);
  }
  return out;
}

prefix_index::block_key scope_table::shared_root(std::string_view model, std::string_view adapter) const {
  return root(model, adapter, "site");
}

void scope_table::remember(const std::string& cache_salt, const std::string& name) {
  if (!names_.emplace(cache_salt, name).second) return;
  order_.push_back(cache_salt);
  if (order_.size() <= k_known_scopes_max) return;
  names_.erase(order_.front());
  order_.pop_front();
}

std::optional<prefix_index::block_key> scope_table::root_of(std::string_view model, std::string_view adapter,
                                                            std::string_view cache_salt) const {
  std::string name;
  {
    const std::lock_guard lock(mutex_);
    const auto found = names_.find(std::string(cache_salt));
    if (found == names_.end()) return std::nullopt;
    name = found->second;
  }
  return root(model, adapter, name);
}

std::expected<std::string, std::string> load_site_salt(const std::filesystem::path& dir) {
  if (dir.empty()) return random_salt();
  std::error_code fault;
  std::filesystem::create_directories(dir, fault);
  if (fault) return std::unexpected(fmt::format("state_dir {}: {}", dir.string(), fault.message()));
  const auto file = dir / "salt";
  if (!std::filesystem::exists(file, fault)) {
    if (auto made = auth::create_secret(file); !made) return std::unexpected(made.error());
  }
  const auto salt = auth::read_private_file(file, k_salt_file_bytes_max);
  if (!salt) return std::unexpected(salt.error());
  if (salt->size() >= k_site_salt_bytes) return *salt;
  return std::unexpected(fmt::format("{}: holds fewer than {} bytes; delete it to make a new one",
                                     file.string(), k_site_salt_bytes));
}

}  // namespace weir::gateway::route
