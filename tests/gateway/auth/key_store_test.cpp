#include "gateway/auth/key_store.hpp"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "gateway/auth/authenticate.hpp"
#include "tests/support/temp_dir.hpp"

namespace weir::gateway::auth {

namespace {

const std::string k_secret = "0123456789abcdef0123456789abcdef";
const std::string k_key = "weir-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789-_AbCdE";

std::filesystem::path write_secret(const weir::testing::temp_dir& dir, const std::string& text, mode_t mode) {
  const auto file = dir.path() / "secret";
  std::ofstream(file) << text;
  REQUIRE(::chmod(file.c_str(), mode) == 0);
  return file;
}

key_store store_of(const weir::testing::temp_dir& dir) {
  config::auth_config config;
  config.secret_file = write_secret(dir, k_secret + "\n", 0600);
  config.keys.push_back({"alice", "team", to_hex(key_digest(k_secret, k_key)), {"tiny"}, {}});
  auto store = key_store::make(config);
  REQUIRE(store);
  return std::move(*store);
}

http::request_head head_with(std::initializer_list<std::pair<const char*, std::string>> fields) {
  http::request_head head{.method = boost::beast::http::verb::get};
  for (const auto& [name, value] : fields) head.fields.insert(name, value);
  return head;
}

}  // namespace

TEST_CASE("digests are HMAC-SHA-256") {
  struct row {
    std::string secret;
    std::string key;
    const char* digest;
  };
  // RFC 4231, test cases 1, 2, 3, 6 and 7.
  const row rows[] = {
      {std::string(20, '\x0b'), "Hi There",
       "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
      {"Jefe", "what do ya want for nothing?",
       "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
      {std::string(20, '\xaa'), std::string(50, '\xdd'),
       "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
      {std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First",
       "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
      {std::string(131, '\xaa'),
       "This is a test using a larger than block-size key and a larger than block-size data. The key needs "
       "to be hashed "
       "before being used by the HMAC algorithm.",
       "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"},
  };
  for (const auto& r : rows) CHECK(to_hex(key_digest(r.secret, r.key)) == r.digest);
}

TEST_CASE("hex digests are read strictly") {
  const auto written = key_digest("a", "b");
  CHECK(from_hex(to_hex(written)) == written);
  CHECK_FALSE(from_hex(""));
  CHECK_FALSE(from_hex(std::string(63, '0')));
  CHECK_FALSE(from_hex(std::string(65, '0')));
  CHECK_FALSE(from_hex(std::string(63, '0') + "G"));
  CHECK_FALSE(from_hex(std::string(63, '0') + "A"));
}

TEST_CASE("only the exact key is known") {
  const weir::testing::temp_dir dir;
  const auto store = store_of(dir);
  const auto* known = store.find(k_key);
  REQUIRE(known != nullptr);
  CHECK(known->name == "alice");
  CHECK(known->may_use("tiny"));
  CHECK_FALSE(known->may_use("other"));
  CHECK(store.find("") == nullptr);
  for (std::size_t n = 0; n < k_key.size(); ++n) CHECK(store.find(k_key.substr(0, n)) == nullptr);
  for (int c = 0; c < 256; ++c) CHECK(store.find(k_key + static_cast<char>(c)) == nullptr);
  CHECK(store.find(" " + k_key) == nullptr);
  CHECK(store.find(std::string(k_key_bytes_max + 1, 'k')) == nullptr);
  CHECK(store.find(to_hex(key_digest(k_secret, k_key))) == nullptr);
  CHECK(key_store().find(k_key) == nullptr);
}

TEST_CASE("ten thousand altered keys never authenticate") {
  const weir::testing::temp_dir dir;
  const auto store = store_of(dir);
  const auto seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 10'000; ++i) {
    std::string value = k_key;
    for (int edits = 1 + static_cast<int>(random() % 3); edits > 0; --edits) {
      const auto at = random() % (value.size() + 1);
      const char c = static_cast<char>(random() % 256);
      switch (random() % 3) {
        case 0:
          value.insert(value.begin() + static_cast<std::ptrdiff_t>(at), c);
          break;
        case 1:
          value.erase(std::min<std::size_t>(at, value.size() - 1), 1);
          break;
        default:
          value[std::min<std::size_t>(at, value.size() - 1)] = c;
      }
    }
    if (value == k_key) continue;
    REQUIRE(store.find(value) == nullptr);
  }
}

TEST_CASE("a secret is private to its owner and long enough") {
  struct row {
    const char* name;
    std::string text;
    mode_t mode;
    const char* error;  // null: accepted
  };
  const row rows[] = {
      {"private", k_secret, 0600, nullptr},
      {"read-only", k_secret + "\r\n", 0400, nullptr},
      {"world-readable", k_secret, 0644, "others may read it"},
      {"group-readable", k_secret, 0640, "others may read it"},
      {"31 bytes", k_secret.substr(1) + "\n\n", 0600, "a secret has 32 to 4096 bytes"},
      {"empty", "", 0600, "a secret has"},
      {"4096 bytes", std::string(4096, 's'), 0600, nullptr},
      {"4097 bytes", std::string(4097, 's'), 0600, "holds more than 4096 bytes"},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    const weir::testing::temp_dir dir;
    const auto secret = read_secret(write_secret(dir, r.text, r.mode));
    CHECK(secret.has_value() == (r.error == nullptr));
    if (!secret && r.error != nullptr) CHECK(secret.error().find(r.error) != std::string::npos);
    if (!secret && r.text.size() >= 31) CHECK(secret.error().find(r.text.substr(0, 31)) == std::string::npos);
  }
  CHECK_FALSE(read_secret("/nonexistent/secret"));
}

TEST_CASE("a store is not made from an open secret or a bad digest") {
  const weir::testing::temp_dir dir;
  config::auth_config config;
  config.keys.push_back({"alice", "team", std::string(64, '0'), {}, {}});
  config.secret_file = write_secret(dir, k_secret, 0644);
  CHECK_FALSE(key_store::make(config));
  config.secret_file = write_secret(dir, k_secret, 0600);
  CHECK(key_store::make(config).has_value());
  config.keys[0].digest = "0";
  CHECK_FALSE(key_store::make(config));
}

TEST_CASE("a created secret is private, fresh and never overwritten") {
  const weir::testing::temp_dir dir;
  const auto file = dir.path() / "new";
  REQUIRE(create_secret(file));
  struct stat status {};
  REQUIRE(::stat(file.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  const auto first = read_secret(file);
  REQUIRE(first);
  CHECK(first->size() == 64);
  CHECK_FALSE(create_secret(file));
  CHECK(read_secret(file) == first);
  REQUIRE(create_secret(dir.path() / "other"));
  CHECK(read_secret(dir.path() / "other") != first);
  CHECK_FALSE(create_secret(dir.path() / "no" / "folder"));
}

TEST_CASE("generated keys are long and differ") {
  const auto key = generate_key();
  CHECK(key.size() == 48);
  CHECK(key.starts_with("weir-"));
  CHECK(key.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") ==
        std::string::npos);
  CHECK(generate_key() != key);
}

TEST_CASE("who is calling") {
  const weir::testing::temp_dir dir;
  const auto store = store_of(dir);
  struct row {
    const char* name;
    http::request_head head;
    bool loopback;
    bool loopback_open;
    const char* caller;  // null: refused
    errc code;
  };
  const std::string wrong = k_key + "x";
  const row rows[] = {
      {"bearer", head_with({{"Authorization", "Bearer " + k_key}}), false, false, "alice", {}},
      {"bearer in lower case", head_with({{"authorization", "bearer " + k_key}}), false, false, "alice", {}},
      {"bearer in mixed case", head_with({{"AUTHORIZATION", "bEaReR " + k_key}}), false, false, "alice", {}},
      {"several spaces", head_with({{"Authorization", "Bearer   " + k_key}}), false, false, "alice", {}},
      {"x-api-key", head_with({{"X-Api-Key", k_key}}), false, false, "alice", {}},
      {"nothing", head_with({}), false, false, nullptr, errc::missing_key},
      {"scheme alone", head_with({{"Authorization", "Bearer"}}), false, false, nullptr, errc::missing_key},
      {"scheme and spaces", head_with({{"Authorization", "Bearer   "}}), false, false, nullptr,
       errc::missing_key},
      {"key without a scheme", head_with({{"Authorization", k_key}}), false, false, nullptr,
       errc::missing_key},
      {"other scheme", head_with({{"Authorization", "Basic " + k_key}}), false, false, nullptr,
       errc::missing_key},
      {"no space", head_with({{"Authorization", "Bearer" + k_key}}), false, false, nullptr,
       errc::missing_key},
      {"wrong bearer", head_with({{"Authorization", "Bearer " + wrong}}), false, false, nullptr,
       errc::invalid_key},
      {"wrong x-api-key", head_with({{"x-api-key", wrong}}), false, false, nullptr, errc::invalid_key},
      {"wrong bearer wins over a good x-api-key",
       head_with({{"Authorization", "Bearer " + wrong}, {"x-api-key", k_key}}), false, false, nullptr,
       errc::invalid_key},
      {"open loopback, nothing", head_with({}), true, true, "loopback", {}},
      {"open loopback, any key",
       head_with({{"Authorization", "Bearer " + wrong}}),
       true,
       true,
       "loopback",
       {}},
      {"open loopback, known key",
       head_with({{"Authorization", "Bearer " + k_key}}),
       true,
       true,
       "alice",
       {}},
      {"closed loopback", head_with({}), true, false, nullptr, errc::missing_key},
      {"open loopback, from elsewhere", head_with({}), false, true, nullptr, errc::missing_key},
      {"wrong key from elsewhere", head_with({{"x-api-key", wrong}}), false, true, nullptr,
       errc::invalid_key},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    const auto caller =
        authenticate(r.head, {.address = "192.0.2.1", .loopback = r.loopback}, store, r.loopback_open);
    REQUIRE(caller.has_value() == (r.caller != nullptr));
    if (caller) {
      CHECK(caller->name == r.caller);
    } else {
      CHECK(caller.error().code == r.code);
      CHECK(caller.error().message.find(wrong) == std::string::npos);
    }
  }
}

}  // namespace weir::gateway::auth
