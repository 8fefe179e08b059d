#include "gateway/auth/admin_key.hpp"

#include <fmt/format.h>
#include <openssl/crypto.h>

#include <algorithm>

#include "gateway/auth/private_file.hpp"

namespace weir::gateway::auth {

std::expected<admin_key, std::string> admin_key::read(const std::filesystem::path& file) {
  const auto text = read_private_file(file, k_key_bytes_max);
  if (!text) return std::unexpected(text.error() + "; 'weir keys admin-key' makes an admin key");
  const bool plain = std::all_of(text->begin(), text->end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (!plain || text->size() < k_admin_key_bytes_min) {
    return std::unexpected(
        fmt::format("{}: an admin key is one line of {} to {} printable characters without space; "
                    "'weir keys admin-key' makes one",
                    file.string(), k_admin_key_bytes_min, k_key_bytes_max));
  }
  return admin_key(*text);
}

admin_key::admin_key(std::string_view key) : secret_(generate_key("")), digest_(key_digest(secret_, key)) {}

bool admin_key::opens(std::string_view presented) const {
  if (presented.empty() || presented.size() > k_key_bytes_max) return false;
  const auto other = key_digest(secret_, presented);
  return CRYPTO_memcmp(other.data(), digest_.data(), digest_.size()) == 0;
}

}  // namespace weir::gateway::auth
