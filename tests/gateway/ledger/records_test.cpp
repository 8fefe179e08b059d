#include "gateway/ledger/records.hpp"

#include <catch2/catch.hpp>

namespace weir::gateway::ledger {

namespace {

auth::key_record sample_key() {
  auth::key_record key{.id = "key_0123456789abcdef01234567",
                       .name = "build farm",
                       .tenant = "acme",
                       .previous_until_s = 1'800'000'000,
                       .created_s = 1'796'040'000,
                       .revoked = true};
  key.digest.fill(0xd1);
  key.previous_digest.emplace().fill(0xd0);
  key.terms = {.models = {"kimi-linear", "k3"},
               .limits = {.requests_per_min = 60,
                          .tokens_per_min = 1'000'000,
                          .concurrent = 8,
                          .usd_per_day = 25 * policy::limits::k_usd,
                          .usd_per_month = 500 * policy::limits::k_usd},
               .residency = auth::residency::local_only,
               .priority = auth::priority_class::high,
               .sharing = auth::key_sharing::site,
               .shadow = true};
  return key;
}

policy::comparison::pair sample_pair() {
  using namespace policy::comparison;
  pair out{.at_s = 1'796'040'000, .model = "kimi", .tenant = "acme", .key = "ci", .streamed = true};
  out.primary = {.target = "own",
                 .status = 200,
                 .prompt_tokens = 1000,
                 .cached_tokens = 0,
                 .output_tokens = 500,
                 .price = 8'340'000,
                 .unpriced = false,
                 .ttft_ns = 120'000'000,
                 .itl_mean_ns = 20'000'000,
                 .itl_median_ns = 19'000'000,
                 .end_to_end_ns = 10'100'000'000,
                 .excerpt = "Nairobi."};
  out.shadow = {.target = "hosted", .end = side_end::timed_out, .excerpt = {}};
  out.alike = {.compared = true,
               .cut = true,
               .overlap = 0.666667,
               .json = likeness::different,
               .tools = likeness::equal};
  return out;
}

stored_pair stored_sample(policy::comparison::pair record) {
  return {.place = 1, .record = std::make_shared<const policy::comparison::pair>(std::move(record))};
}

std::vector<any_record> samples() {
  return {state_record{.commit = 9,
                       .next_id = 8,
                       .settled = 3,
                       .charged = 2,
                       .voided = 1,
                       .next_charge = 2,
                       .spent = 77,
                       .clock_s = 1'796'040'000},
          stored_account{.account = "key_1", .record = {.reservations = 7, .ended = 6, .spent = 77}},
          stored_window{.account = "key_1", .unit = window_unit::day, .label = 20'787, .spent = 70},
          stored_window{.account = "key_1", .unit = window_unit::month, .label = 24'322, .spent = 77},
          stored_reservation{.id = 7,
                             .record = {.account = "key_1",
                                        .request_id = "req-1",
                                        .amount = 5,
                                        .day = 20'787,
                                        .month = 24'322,
                                        .reserved_at_s = 1'796'040'000}},
          stored_charge{.place = 1,
                        .record = {.id = 3,
                                   .account = "key_1",
                                   .request_id = "",
                                   .amount = 5,
                                   .reserved_at_s = 1,
                                   .charged_at_s = 2}},
          sample_key(),
          auth::key_record{.id = "k"},
          auth::tenant_record{.name = "acme", .weight = 3},
          traffic_row{.key = {.hour = 498'888, .model = "kimi", .target = "a"},
                      .counts = {.hosted = true,
                                 .requests = 9,
                                 .accepted = 7,
                                 .failed = 1,
                                 .retried = 2,
                                 .local_only = 3,
                                 .prompt_tokens = 900,
                                 .known_tokens = 800,
                                 .cached_tokens = 700,
                                 .output_tokens = 90,
                                 .cost = 12'345,
                                 .first_s = 1'796'040'000,
                                 .last_s = 1'796'040'100}},
          traffic_row{.key = {.hour = 0, .model = "kimi", .target = ""}, .counts = {}},
          stored_sample(sample_pair()),
          stored_sample({.model = "m", .primary = {.target = "a"}, .shadow = {.target = "b"}})};
}

}  // namespace

TEST_CASE("every record is read as it was written") {
  for (const auto& record : samples()) {
    const auto stored = encode(record);
    const auto read = decode(stored.key, *stored.value);
    REQUIRE(read);
    CHECK(read->index() == record.index());
    const auto again = encode(*read);
    CHECK(again.key == stored.key);
    CHECK(again.value == stored.value);
  }
  const auto stored = encode(sample_key());
  CHECK(std::get<auth::key_record>(*decode(stored.key, *stored.value)) == sample_key());
  const auto pair = encode(stored_sample(sample_pair()));
  CHECK(*std::get<stored_pair>(*decode(pair.key, *pair.value)).record == sample_pair());
}

TEST_CASE("no flipped bit, lost byte or foreign key is read") {
  for (const auto& record : samples()) {
    const auto stored = encode(record);
    const auto& value = *stored.value;
    for (std::size_t bit = 0; bit < value.size() * 8; ++bit) {
      auto flipped = value;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
      if (decode(stored.key, flipped)) FAIL("record " << record.index() << " bit " << bit);
    }
    for (std::size_t size = 0; size < value.size(); ++size) {
      if (decode(stored.key, value.substr(0, size))) FAIL("record " << record.index() << " cut to " << size);
    }
    CHECK_FALSE(decode(stored.key + "x", value));
    CHECK_FALSE(decode("", value));
  }
}

TEST_CASE("a key that the format cannot hold is not storable") {
  CHECK(is_storable(sample_key()));
  const auto refused = [](auto change) {
    auto key = sample_key();
    change(key);
    return !is_storable(key);
  };
  CHECK(refused([](auto& k) { k.id.clear(); }));
  CHECK(refused([](auto& k) { k.id.assign(k_account_bytes_max + 1, 'x'); }));
  CHECK(refused([](auto& k) { k.name.assign(k_text_bytes_max + 1, 'x'); }));
  CHECK(refused([](auto& k) { k.terms.models.assign(k_models_max + 1, "m"); }));
  CHECK(refused([](auto& k) { k.terms.models.emplace_back(); }));
  CHECK(refused([](auto& k) { k.terms.limits.usd_per_day = -1; }));
  CHECK_FALSE(is_storable(auth::tenant_record{.name = "t", .weight = 0}));
  CHECK(is_storable(traffic_row{.key = {.hour = 0, .model = "m", .target = ""}, .counts = {}}));
  CHECK_FALSE(is_storable(traffic_row{.key = {.hour = 0, .model = "", .target = "t"}, .counts = {}}));
  CHECK_FALSE(is_storable(traffic_row{
      .key = {.hour = 0, .model = "m", .target = std::string(k_text_bytes_max + 1, 't')}, .counts = {}}));
}

}  // namespace weir::gateway::ledger
