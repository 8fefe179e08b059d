#include "gateway/limits/key_writer.hpp"

#include <catch2/catch.hpp>
#include <future>
#include <thread>
#include <vector>

#include "gateway/limits/account.hpp"
#include "tests/support/temp_dir.hpp"

namespace weir::gateway::limits {

namespace {

struct fixture {
  weir::testing::temp_dir dir;
  account_table accounts;
  auth::key_ring ring{accounts};
  std::unique_ptr<ledger::ledger> money = std::move(*ledger::ledger::open({.folder = dir.path() / "ledger"}));
};

auth::key_record record_of(std::string name) {
  return {.id = "key_" + name, .name = name, .tenant = "t", .digest = {static_cast<unsigned char>(name[0])}};
}

result<key_change> make(key_writer& writer, key_writer::plan plan) {
  auto promise = std::make_shared<std::promise<result<key_change>>>();
  auto told = promise->get_future();
  writer.submit(std::move(plan),
                [promise](result<key_change> outcome) { promise->set_value(std::move(outcome)); });
  return told.get();
}

std::int64_t weight_in(const fixture& f) {
  return f.money->tenants().empty() ? 0 : f.money->tenants()[0].weight;
}

}  // namespace

TEST_CASE("changes from many threads are made one after another, from what the last one left") {
  fixture f;
  constexpr int k_threads = 8;
  constexpr int k_each = 25;
  {
    key_writer writer(f.ring, *f.money);
    std::vector<std::thread> threads;
    for (int t = 0; t < k_threads; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < k_each; ++i) {
          const auto made = make(writer, [&f]() -> result<key_change> {
            return auth::tenant_record{.name = "t", .weight = weight_in(f) + 1};
          });
          if (!made) std::abort();
        }
      });
    }
    for (auto& thread : threads) thread.join();
  }
  CHECK(weight_in(f) == k_threads * k_each);
}

TEST_CASE("a change is in force when it is answered, and a refused one changes nothing") {
  fixture f;
  key_writer writer(f.ring, *f.money);
  const auto claim_and_make = [&f](auth::key_record record) {
    return [&f, record = std::move(record)]() -> result<key_change> {
      if (const auto taken = f.ring.claim(record)) return fail(errc::conflict, *taken);
      return record;
    };
  };
  REQUIRE(make(writer, claim_and_make(record_of("a"))));
  CHECK(f.ring.named("a"));
  auto twin = record_of("a");
  twin.id = "key_other";
  CHECK(make(writer, claim_and_make(twin)).error().code == errc::conflict);
  CHECK(f.money->keys().size() == 1);

  auto revoked = record_of("a");
  revoked.revoked = true;
  REQUIRE(make(writer, [&] { return result<key_change>(revoked); }));
  CHECK_FALSE(f.ring.named("a"));
  CHECK(f.accounts.of("key_a")->revoked());
  CHECK(make(writer, [&] { return result<key_change>(record_of("a")); }).error().code == errc::conflict);
  REQUIRE(make(writer, [] { return result<key_change>(erased_key{"key_a"}); }));
  CHECK(f.money->keys().empty());
}

TEST_CASE("a claimed name is not free for a configuration until its change failed") {
  fixture f;
  config::auth_config config;
  config.keys.push_back({.name = "a", .tenant = "t", .digest = std::string(64, 'a')});
  REQUIRE_FALSE(f.ring.claim(record_of("a")));
  CHECK_FALSE(f.ring.configure(config));
  f.ring.unclaim();
  CHECK(f.ring.configure(config));
  CHECK(f.ring.claim(record_of("a")));
}

TEST_CASE("what waits when the writer ends is answered") {
  fixture f;
  std::promise<void> go;
  auto gone = go.get_future().share();
  std::vector<std::future<result<key_change>>> told;
  {
    key_writer writer(f.ring, *f.money);
    for (int i = 0; i < 3; ++i) {
      auto promise = std::make_shared<std::promise<result<key_change>>>();
      told.push_back(promise->get_future());
      writer.submit(
          [gone]() -> result<key_change> {
            gone.wait();
            return fail(errc::conflict, "no");
          },
          [promise](result<key_change> outcome) { promise->set_value(std::move(outcome)); });
    }
    go.set_value();
  }
  for (auto& one : told) CHECK_FALSE(one.get());
}

}  // namespace weir::gateway::limits
