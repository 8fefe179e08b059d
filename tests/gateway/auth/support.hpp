// A secret, a key and its record, for tests of keys.
#pragma once

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "gateway/auth/key_store.hpp"
#include "tests/support/temp_dir.hpp"

namespace weir::gateway::auth {

inline constexpr std::int64_t k_now_s = 1'700'000'000;
inline const std::string k_secret = "0123456789abcdef0123456789abcdef";
inline const std::string k_key = "weir-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789-_AbCdE";

inline std::filesystem::path write_secret(const weir::testing::temp_dir& dir, const std::string& text,
                                          mode_t mode) {
  const auto file = dir.path() / "secret";
  std::ofstream(file) << text;
  REQUIRE(::chmod(file.c_str(), mode) == 0);
  return file;
}

inline key_record alice() {
  return {.id = "key_1",
          .name = "alice",
          .tenant = "team",
          .digest = key_digest(k_secret, k_key),
          .terms = {.models = {"tiny"}}};
}

}  // namespace weir::gateway::auth
