#include "gateway/auth/key_store.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "gateway/auth/private_file.hpp"
#include "gateway/limits/account.hpp"

namespace weir::gateway::auth {

namespace {

void fill_random(unsigned char* out, int size) {
  if (RAND_bytes(out, size) != 1) throw std::runtime_error("the system's random source failed");
}

}  // namespace

std::shared_ptr<const key_terms> identity::no_terms() {
  static const auto k_none = std::make_shared<const key_terms>();
  return k_none;
}

identity loopback_identity() {
  return {.name = "loopback", .tenant = "loopback"};
}

bool identity::may_use(std::string_view model) const {
  const auto& models = terms->models;
  return models.empty() || std::find(models.begin(), models.end(), model) != models.end();
}

std::size_t key_store::first_bytes::operator()(const digest& d) const noexcept {
  std::size_t value = 0;
  std::memcpy(&value, d.data(), sizeof value);
  return value;
}

digest key_digest(std::string_view secret, std::string_view key) {
  digest out{};
  unsigned int size = 0;
  if (HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(key.data()), key.size(), out.data(), &size) == nullptr ||
      size != out.size()) {
    throw std::runtime_error("HMAC-SHA-256 failed");
  }
  return out;
}

std::string to_hex(const digest& d) {
  std::string out;
  for (const unsigned char byte : d) out += fmt::format("{:02x}", byte);
  return out;
}

std::optional<digest> from_hex(std::string_view hex) {
  digest out{};
  if (hex.size() != 2 * out.size()) return std::nullopt;
  const auto value = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  for (std::size_t i = 0; i < out.size(); ++i) {
    const int high = value(hex[2 * i]);
    const int low = value(hex[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    out[i] = static_cast<unsigned char>(high * 16 + low);
  }
  return out;
}

std::expected<std::string, std::string> read_secret(const std::filesystem::path& file) {
  auto secret = read_private_file(file, k_secret_bytes_max);
  if (!secret) return std::unexpected(secret.error() + "; 'weir keys new' makes a secret");
  if (secret->size() < k_secret_bytes_min) {
    return std::unexpected(fmt::format("{}: a secret has {} to {} bytes", file.string(), k_secret_bytes_min,
                                       k_secret_bytes_max));
  }
  return secret;
}

std::expected<void, std::string> create_secret(const std::filesystem::path& file) {
  digest random{};
  fill_random(random.data(), static_cast<int>(random.size()));
  return create_private_file(file, to_hex(random));
}

std::string random_id(std::string_view prefix) {
  std::array<unsigned char, 12> random{};
  fill_random(random.data(), static_cast<int>(random.size()));
  std::string id(prefix);
  for (const unsigned char byte : random) id += fmt::format("{:02x}", byte);
  return id;
}

std::string generate_key(std::string_view prefix) {
  static constexpr std::string_view k_alphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  static_assert(k_alphabet.size() == 64, "six bits a character, without bias");
  std::array<unsigned char, 43> random{};
  fill_random(random.data(), static_cast<int>(random.size()));
  std::string key(prefix);
  for (const unsigned char byte : random) key += k_alphabet[byte & 63];
  return key;
}

identity identity_of(const key_record& key, std::int64_t tenant_weight, limits::account_table& accounts) {
  return {.name = key.name,
          .tenant = key.tenant,
          .weight = tenant_weight,
          .terms = std::make_shared<const key_terms>(key.terms),
          .account = accounts.of(key.id)};
}

key_store::key_store(std::string secret, std::span<const key_record> records,
                     const std::function<std::int64_t(std::string_view tenant)>& weight_of,
                     limits::account_table& accounts)
    : secret_(std::move(secret)) {
  for (const auto& key : records) {
    if (key.revoked) continue;
    const auto who = identity_of(key, weight_of(key.tenant), accounts);
    keys_.emplace(key.digest, entry{who});
    if (key.previous_digest) keys_.emplace(*key.previous_digest, entry{who, key.previous_until_s});
  }
}

const identity* key_store::find(std::string_view presented_key, std::int64_t now_s) const {
  if (keys_.empty() || presented_key.empty() || presented_key.size() > k_key_bytes_max) return nullptr;
  const auto found = keys_.find(key_digest(secret_, presented_key));
  if (found == keys_.end()) return nullptr;
  const auto& [who, until_s] = found->second;
  return until_s == 0 || now_s < until_s ? &who : nullptr;
}

std::expected<std::vector<key_record>, std::string> records_of(const config::auth_config& config) {
  std::vector<key_record> out;
  for (const auto& key : config.keys) {
    const auto d = from_hex(key.digest);
    if (!d) return std::unexpected(fmt::format("key '{}': the digest is not 64 hex digits", key.name));
    out.push_back({.id = key.name, .name = key.name, .tenant = key.tenant, .digest = *d, .terms = key.terms});
  }
  return out;
}

}  // namespace weir::gateway::auth
