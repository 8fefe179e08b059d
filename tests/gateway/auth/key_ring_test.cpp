#include "gateway/auth/key_ring.hpp"

#include "gateway/limits/account.hpp"
#include "tests/gateway/auth/support.hpp"

namespace weir::gateway::auth {

TEST_CASE("a ring takes no open secret and no bad digest, and keeps what it had") {
  const weir::testing::temp_dir dir;
  limits::account_table accounts;
  key_ring ring(accounts);
  config::auth_config config;
  config.keys.push_back({"alice", "team", to_hex(key_digest(k_secret, k_key)), {}, {}});
  config.secret_file = write_secret(dir, k_secret, 0644);
  CHECK_FALSE(ring.configure(config));
  config.secret_file = write_secret(dir, k_secret, 0600);
  REQUIRE(ring.configure(config));
  CHECK(ring.store()->find(k_key, k_now_s) != nullptr);
  config.keys[0].digest = "0";
  CHECK_FALSE(ring.configure(config));
  CHECK(ring.store()->find(k_key, k_now_s) != nullptr);
}

TEST_CASE("a key in the configuration file and in the ledger is a fault, whichever comes first") {
  const weir::testing::temp_dir dir;
  limits::account_table accounts;
  key_ring ring(accounts);
  config::auth_config config;
  config.secret_file = write_secret(dir, k_secret, 0600);
  auto made = alice();
  ring.set_made({made}, {});
  config.keys.push_back({"alice", "team", std::string(64, '0'), {}, {}});
  const auto same_name = ring.configure(config);
  REQUIRE_FALSE(same_name);
  CHECK(same_name.error().find("alice") != std::string::npos);
  config.keys[0] = {"other", "team", to_hex(made.digest), {}, {}};
  CHECK_FALSE(ring.configure(config));
  made.revoked = true;
  ring.set_made({made}, {});
  REQUIRE(ring.configure(config));
  auto second = alice();
  second.id = "key_2";
  CHECK(ring.claim(second));  // the file has its digest
  second.digest[0] ^= 1;
  CHECK_FALSE(ring.claim(second));
  ring.unclaim();
  second.name = "other";
  CHECK(ring.claim(second));
}

TEST_CASE("a key of the file named as a ledger key's id is a fault: nobody could revoke the one behind it") {
  const weir::testing::temp_dir dir;
  limits::account_table accounts;
  key_ring ring(accounts);
  config::auth_config config;
  config.secret_file = write_secret(dir, k_secret, 0600);
  config.keys.push_back({"key_1", "team", std::string(64, '0'), {}, {}});
  auto made = alice();
  for (const bool revoked : {false, true}) {
    made.revoked = revoked;
    ring.set_made({made}, {});
    const auto taken = ring.configure(config);
    REQUIRE_FALSE(taken);
    CHECK(taken.error().find("key_1") != std::string::npos);
  }
  ring.set_made({}, {});
  REQUIRE(ring.configure(config));
  auto by_id = alice();
  by_id.digest[0] ^= 1;
  CHECK(ring.claim(by_id));
  auto by_name = alice();
  by_name.id = "key_2";
  by_name.name = "key_1";
  CHECK(ring.claim(by_name));
  by_name.name = "bob";
  CHECK_FALSE(ring.claim(by_name));
}

TEST_CASE(
    "a key that the file does not hold any more ends what runs, and may come back with its minute used") {
  struct request final : limits::running_request {
    int ended = 0;
    void end_soon() noexcept override { ++ended; }
  };
  const weir::testing::temp_dir dir;
  limits::account_table accounts;
  key_ring ring(accounts);
  config::auth_config both;
  both.secret_file = write_secret(dir, k_secret, 0600);
  both.keys.push_back({"stays", "team", std::string(64, '1'), {}, {}});
  auto less = both;
  both.keys.push_back({"goes", "team", to_hex(key_digest(k_secret, k_key)), {}, {}});
  REQUIRE(ring.configure(both));
  const auto held = ring.store()->find(k_key, k_now_s)->account;
  const policy::limits::rate how{.limit = 60};
  REQUIRE(held->requests.take(how, 60, limits::cell_now_ns()).allowed);
  request running;
  request other;
  REQUIRE(held->enter(running, 0));
  REQUIRE(accounts.of("stays")->enter(other, 0));
  REQUIRE(ring.configure(less));
  CHECK(running.ended == 1);
  CHECK(other.ended == 0);
  request late;
  CHECK_FALSE(held->enter(late, 0));  // it was let in by the store before
  held->leave(running);
  REQUIRE(ring.configure(both));
  const auto again = ring.store()->find(k_key, k_now_s)->account;
  CHECK(again->requests.look(how, limits::cell_now_ns()).remaining < 60);
  CHECK(again->enter(running, 0));
  accounts.of("stays")->leave(other);
}

TEST_CASE("a reload with another secret is refused while anything was made with the old one") {
  const weir::testing::temp_dir dir;
  limits::account_table accounts;
  const std::string other(32, 'o');
  config::auth_config none;
  none.secret_file = write_secret(dir, k_secret, 0600);
  auto keys = none;
  keys.keys.push_back({"alice", "team", to_hex(key_digest(k_secret, k_key)), {}, {}});
  auto ledger = none;
  ledger.ledger_dir = dir.path() / "ledger";
  struct row {
    const char* name;
    config::auth_config before, after;
    bool refused;
  };
  const row rows[] = {{"a key of the file", keys, keys, true},
                      {"its key goes", keys, none, true},
                      {"a key comes", none, keys, true},
                      {"a ledger", ledger, ledger, true},
                      {"nothing", none, none, false}};
  for (const auto& r : rows) {
    INFO(r.name);
    key_ring ring(accounts);
    write_secret(dir, k_secret, 0600);
    REQUIRE(ring.configure(r.before));
    REQUIRE(ring.configure(r.before));
    write_secret(dir, other, 0600);
    const auto taken = ring.configure(r.after);
    CHECK(taken.has_value() != r.refused);
    if (taken) continue;
    CHECK(taken.error().find("restart") != std::string::npos);
    CHECK(taken.error().find(other) == std::string::npos);
    CHECK((ring.store()->find(k_key, k_now_s) != nullptr) == !r.before.keys.empty());
  }
}

TEST_CASE("tenants have the weight that the file says, else the ledger's, else one") {
  limits::account_table accounts;
  key_ring ring(accounts);
  config::auth_config config;
  config.tenants = {{"team", 5}};
  REQUIRE(ring.configure(config));
  auto other = alice();
  other.id = "key_2";
  other.name = "bob";
  other.tenant = "rest";
  ring.set_made({alice(), other}, {{"team", 2}, {"rest", 3}});
  CHECK(ring.named("alice")->weight == 5);
  CHECK(ring.named("bob")->weight == 3);
  CHECK_FALSE(ring.named("carol"));
}

}  // namespace weir::gateway::auth
