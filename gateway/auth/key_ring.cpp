#include "gateway/auth/key_ring.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gateway/limits/account.hpp"

namespace weir::gateway::auth {

namespace {

// A key of the file is known by its name where one of the ledger is known by its id.
bool same_name(const key_record& a, const key_record& b) {
  return a.name == b.name || a.name == b.id;
}

bool same_digest(const key_record& a, const key_record& b) {
  return a.digest == b.digest || a.previous_digest == b.digest || b.previous_digest == a.digest;
}

// An id is taken for good, a name and a digest until the key is revoked.
const key_record* find_same(const std::vector<key_record>& records, const key_record& wanted) {
  const auto found = std::find_if(records.begin(), records.end(), [&](const key_record& r) {
    if (r.id == wanted.id || r.id == wanted.name) return true;
    return !r.revoked && (same_name(r, wanted) || same_digest(r, wanted));
  });
  return found == records.end() ? nullptr : &*found;
}

}  // namespace

std::expected<void, std::string> key_ring::configure(const config::auth_config& config) {
  auto records = records_of(config);
  if (!records) return std::unexpected(records.error());
  std::string secret = config.secret;
  if (!config.secret_file.empty()) {
    auto read = read_secret(config.secret_file);
    if (!read) return std::unexpected(read.error());
    secret = std::move(*read);
  }
  const std::lock_guard lock(mutex_);
  if (auto kept = check_secret(secret, config, *records); !kept) return kept;
  for (const auto& record : *records) {
    const auto* made = find_same(made_, record);
    if (made == nullptr) made = find_same(claimed_, record);
    if (made != nullptr) {
      return std::unexpected(
          fmt::format("key '{}' of the configuration file is also in the ledger, as '{}' ({}): keep it in "
                      "one place; 'weir keys revoke' takes it out of the ledger",
                      record.name, made->name, made->id));
    }
  }
  secret_ = std::move(secret);
  std::swap(configured_, *records);
  configured_tenants_ = config.tenants;
  rebuild();
  for (const auto& before : *records) {
    const auto stays = [&](const key_record& r) { return r.id == before.id; };
    if (std::none_of(configured_.begin(), configured_.end(), stays)) accounts_.retire(before.id);
  }
  return {};
}

std::expected<void, std::string> key_ring::check_secret(const std::string& wanted,
                                                        const config::auth_config& config,
                                                        const std::vector<key_record>& records) const {
  const bool depends = !configured_.empty() || !records.empty() || !config.ledger_dir.empty();
  if (secret_.empty() || wanted == secret_ || !depends) return {};
  return std::unexpected(fmt::format(
      "auth.secret_file ({}) holds another secret now, with which no running key would open: put the "
      "old one back; or make every key anew with it and restart",
      config.secret_file.string()));
}

void key_ring::set_made(std::vector<key_record> records, std::vector<tenant_record> tenants) {
  const std::lock_guard lock(mutex_);
  made_ = std::move(records);
  made_tenants_ = std::move(tenants);
  claimed_.clear();
  for (const auto& record : made_) {
    if (record.revoked) accounts_.of(record.id)->revoke();
  }
  rebuild();
}

void key_ring::rebuild() {
  auto records = configured_;
  records.insert(records.end(), made_.begin(), made_.end());
  const auto weight = [this](std::string_view tenant) { return weight_of(tenant); };
  auto next = std::make_shared<const key_store>(secret_, records, weight, accounts_);
  {
    const std::lock_guard lock(store_mutex_);
    store_.swap(next);
  }
  // Not by the last of its readers: an I/O thread has better to do than to free thousands of keys.
  last_store_ = std::move(next);
}

std::int64_t key_ring::weight_of(std::string_view tenant) const {
  for (const auto* tenants : {&configured_tenants_, &made_tenants_}) {
    for (const auto& t : *tenants) {
      if (t.name == tenant) return t.weight;
    }
  }
  return 1;
}

std::shared_ptr<const key_store> key_ring::store() const {
  const std::lock_guard lock(store_mutex_);
  return store_;
}

std::vector<key_record> key_ring::configured() const {
  const std::lock_guard lock(mutex_);
  return configured_;
}

std::vector<key_record> key_ring::all() const {
  const std::lock_guard lock(mutex_);
  auto out = configured_;
  std::copy_if(made_.begin(), made_.end(), std::back_inserter(out),
               [](const key_record& r) { return !r.revoked; });
  return out;
}

std::optional<identity> key_ring::named(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  for (const auto* records : {&configured_, &made_}) {
    for (const auto& r : *records) {
      if (!r.revoked && r.name == name) return identity_of(r, weight_of(r.tenant), accounts_);
    }
  }
  return std::nullopt;
}

std::vector<tenant_record> key_ring::configured_tenants() const {
  const std::lock_guard lock(mutex_);
  return configured_tenants_;
}

std::optional<std::string> key_ring::claim(const key_record& record) {
  const std::lock_guard lock(mutex_);
  if (find_same(configured_, record) != nullptr) {
    return fmt::format("a key named '{}' is in the configuration file", record.name);
  }
  if (find_same(made_, record) != nullptr) return fmt::format("a key named '{}' exists", record.name);
  claimed_.assign(1, record);
  return std::nullopt;
}

void key_ring::unclaim() {
  const std::lock_guard lock(mutex_);
  claimed_.clear();
}

std::optional<digest> key_ring::digest_of(std::string_view key) const {
  const std::lock_guard lock(mutex_);
  if (secret_.empty()) return std::nullopt;
  return key_digest(secret_, key);
}

}  // namespace weir::gateway::auth
