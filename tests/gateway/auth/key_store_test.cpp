#include "gateway/auth/key_store.hpp"

#include <random>

#include "gateway/auth/authenticate.hpp"
#include "gateway/limits/account.hpp"
#include "gateway/limits/rate_checkpoint.hpp"
#include "tests/gateway/auth/support.hpp"

namespace weir::gateway::auth {

namespace {

std::int64_t no_weight(std::string_view) {
  return 1;
}

key_store store_of(limits::account_table& accounts, std::vector<key_record> records = {alice()}) {
  return key_store(k_secret, records, no_weight, accounts);
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
  limits::account_table accounts;
  const auto store = store_of(accounts);
  const auto* known = store.find(k_key, k_now_s);
  REQUIRE(known != nullptr);
  CHECK(known->name == "alice");
  CHECK(known->may_use("tiny"));
  CHECK_FALSE(known->may_use("other"));
  CHECK(store.find("", k_now_s) == nullptr);
  for (std::size_t n = 0; n < k_key.size(); ++n) CHECK(store.find(k_key.substr(0, n), k_now_s) == nullptr);
  for (int c = 0; c < 256; ++c) CHECK(store.find(k_key + static_cast<char>(c), k_now_s) == nullptr);
  CHECK(store.find(" " + k_key, k_now_s) == nullptr);
  CHECK(store.find(std::string(k_key_bytes_max + 1, 'k'), k_now_s) == nullptr);
  CHECK(store.find(to_hex(key_digest(k_secret, k_key)), k_now_s) == nullptr);
  CHECK(key_store().find(k_key, k_now_s) == nullptr);
}

TEST_CASE("ten thousand altered keys never authenticate") {
  limits::account_table accounts;
  const auto store = store_of(accounts);
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
    REQUIRE(store.find(value, k_now_s) == nullptr);
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

TEST_CASE("a rotated key opens for its grace, a revoked one never again, and both share one account") {
  limits::account_table accounts;
  auto record = alice();
  record.previous_digest = record.digest;
  record.digest = key_digest(k_secret, "weir-new");
  record.previous_until_s = k_now_s + 60;
  const auto store = store_of(accounts, {record});
  const auto* old = store.find(k_key, k_now_s + 59);
  const auto* fresh = store.find("weir-new", k_now_s + 59);
  REQUIRE(old != nullptr);
  REQUIRE(fresh != nullptr);
  CHECK(old->account == fresh->account);
  CHECK(store.find(k_key, k_now_s + 60) == nullptr);
  CHECK(store.find("weir-new", k_now_s + 1'000'000) != nullptr);
  record.revoked = true;
  CHECK(store_of(accounts, {record}).find("weir-new", k_now_s) == nullptr);
}

TEST_CASE("revoking ends what runs and lets nothing enter") {
  struct request final : limits::running_request {
    int ended = 0;
    void end_soon() noexcept override { ++ended; }
  };
  limits::account account("key_1");
  request a;
  request b;
  request c;
  REQUIRE(account.enter(a, 2));
  REQUIRE(account.enter(b, 2));
  CHECK_FALSE(account.enter(c, 2));
  account.leave(a);
  REQUIRE(account.enter(c, 2));
  account.revoke();
  CHECK(a.ended == 0);
  CHECK(b.ended == 1);
  CHECK(c.ended == 1);
  account.leave(b);
  account.leave(c);
  CHECK(account.running() == 0);
  CHECK_FALSE(account.enter(a, 0));
}

TEST_CASE("used minutes are written and read; a damaged file changes nothing") {
  constexpr std::int64_t k_s = 1'000'000'000;
  const policy::limits::rate how{.limit = 60};
  limits::account_table before;
  REQUIRE(before.of("key 1")->requests.take(how, 40, 100 * k_s).allowed);
  REQUIRE(before.of("key_2")->tokens.take(how, 10, 100 * k_s).allowed);
  before.of("idle");
  const auto text = limits::write_rates(before, 100 * k_s, 1'000'000);
  CHECK(text.find("idle") == std::string::npos);
  limits::account_table after;
  REQUIRE(limits::read_rates(text, after, 5 * k_s, 1'015'000));
  CHECK(after.of("key 1")->requests.look(how, 5 * k_s).remaining == 35);
  CHECK(after.of("key_2")->tokens.look(how, 5 * k_s).remaining == 60);
  // A clock that went back gives nothing back.
  limits::account_table back;
  REQUIRE(limits::read_rates(text, back, 5 * k_s, 1));
  CHECK(back.of("key 1")->requests.look(how, 5 * k_s).remaining == 20);
  for (const std::string bad : {"", "weir-rates 2 1\n", "weir-rates 1 x\n", "weir-rates 1 -5\n", "\xff\n"}) {
    CHECK_FALSE(limits::read_rates(bad, after, 0, 0));
  }
  limits::account_table odd;
  CHECK(limits::read_rates("weir-rates 1 1\n9223372036854775807 1 a\n1 99999999999999999999 b\n1\n\nx y z\n",
                           odd, 5 * k_s, 1));
  CHECK(odd.of("a")->requests.look(how, 5 * k_s).remaining == 0);
  CHECK(odd.of("b")->tokens.look(how, 5 * k_s).remaining == 60);
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
  limits::account_table accounts;
  const auto store = store_of(accounts);
  struct row {
    const char* name;
    http::request_head head;
    const char* caller;  // null: refused
    errc code;
  };
  const std::string wrong = k_key + "x";
  const row rows[] = {
      {"bearer", head_with({{"Authorization", "Bearer " + k_key}}), "alice", {}},
      {"bearer in lower case", head_with({{"authorization", "bearer " + k_key}}), "alice", {}},
      {"bearer in mixed case", head_with({{"AUTHORIZATION", "bEaReR " + k_key}}), "alice", {}},
      {"several spaces", head_with({{"Authorization", "Bearer   " + k_key}}), "alice", {}},
      {"x-api-key", head_with({{"X-Api-Key", k_key}}), "alice", {}},
      {"nothing", head_with({}), nullptr, errc::missing_key},
      {"scheme alone", head_with({{"Authorization", "Bearer"}}), nullptr, errc::missing_key},
      {"scheme and spaces", head_with({{"Authorization", "Bearer   "}}), nullptr, errc::missing_key},
      {"key without a scheme", head_with({{"Authorization", k_key}}), nullptr, errc::missing_key},
      {"other scheme", head_with({{"Authorization", "Basic " + k_key}}), nullptr, errc::missing_key},
      {"no space", head_with({{"Authorization", "Bearer" + k_key}}), nullptr, errc::missing_key},
      {"wrong bearer", head_with({{"Authorization", "Bearer " + wrong}}), nullptr, errc::invalid_key},
      {"wrong x-api-key", head_with({{"x-api-key", wrong}}), nullptr, errc::invalid_key},
      {"wrong bearer wins over a good x-api-key",
       head_with({{"Authorization", "Bearer " + wrong}, {"x-api-key", k_key}}), nullptr, errc::invalid_key},
      {"two x-api-key", head_with({{"x-api-key", k_key}, {"x-api-key", k_key}}), nullptr, errc::missing_key},
      {"two bearers", head_with({{"Authorization", "Bearer " + k_key}, {"Authorization", "Bearer " + k_key}}),
       nullptr, errc::missing_key},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    const auto caller = authenticate(r.head, store, k_now_s);
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
