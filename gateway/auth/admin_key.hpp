// The key that opens the admin API. Kept as a digest under a secret of this process, compared in constant
// time. Immutable; any thread.
#pragma once

#include <expected>
#include <filesystem>
#include <string>
#include <string_view>

#include "gateway/auth/key_store.hpp"

namespace weir::gateway::auth {

inline constexpr std::size_t k_admin_key_bytes_min = 32;

class admin_key final {
 public:
  // From a file that nobody but its owner may read, of one line. The error is a sentence without a byte of
  // it.
  static std::expected<admin_key, std::string> read(const std::filesystem::path& file);

  explicit admin_key(std::string_view key);

  bool opens(std::string_view presented) const;

 private:
  std::string secret_;
  digest digest_;
};

}  // namespace weir::gateway::auth
