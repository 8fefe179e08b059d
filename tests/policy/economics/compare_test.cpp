// Worked examples, computed by hand: the arithmetic is in the comments.
#include "policy/economics/compare.hpp"

#include <catch2/catch.hpp>
#include <limits>

#include "tests/policy/economics/samples.hpp"

namespace weir::policy::economics {
namespace {

TEST_CASE("example 1: Kimi K3 on a rented node beside its API") {
  const auto out = compare(k3_on_one_node());
  REQUIRE(out.api);
  REQUIRE(out.own);
  REQUIRE(out.even);

  // API, a request: 20,000 x (0.9 x $0.30 + 0.1 x $3.00) / 1e6 = 20,000 x $0.57 / 1e6 = $0.0114
  //                 + 500 x $15 / 1e6 = $0.0075                                       = $0.0189
  CHECK(out.api->per_request == 18'900'000);
  CHECK(out.api->per_hour == 68'040'000'000);           // x 3600 = $68.04
  CHECK(to_cents(out.api->per_month) == 4'966'920);     // x 730 = $49,669.20
  CHECK(out.api->per_accepted == 20'000'000);           // $0.0189 / 0.945 = $0.02
  CHECK(to_cents(*out.api->per_mtok_input) == 57);      // $0.57
  CHECK(to_cents(*out.api->per_mtok_output) == 1'500);  // $15.00
  CHECK(to_cents(*out.api->per_mtok) == 92);            // $0.0189 / 20,500 x 1e6 = $0.92195

  // Own: uncached 20,000 x 0.2 / 20,000 = 0.2 s, output 500 / 2,000 = 0.25 s: 0.45 s of a replica. At the
  // peak 2 requests a second: 0.9 replicas, so one. Eight GPUs x $5 = $40 an hour.
  CHECK(out.own->replicas == 1);
  CHECK(out.own->carries);
  CHECK(out.own->bound == "work");
  CHECK(out.own->utilisation_peak == Approx(0.9));
  CHECK(out.own->utilisation_mean == Approx(0.45));
  CHECK(out.own->requests_per_hour == Approx(4000));  // 3600 / (0.45 x 2)
  const auto& own = out.own->cost;
  CHECK(own.per_hour == 40'000'000'000);
  CHECK(to_cents(own.per_month) == 2'920'000);     // $29,200.00
  CHECK(own.per_request == 11'111'111);            // $40 / 3600
  CHECK(own.per_accepted == 13'888'889);           // $40 / (3600 x 0.8) = $0.0138888...
  CHECK(to_cents(*own.per_mtok_input) == 25);      // $40 x 0.2 / 0.45 / 72 M = $0.2469
  CHECK(to_cents(*own.per_mtok_output) == 1'235);  // $40 x 0.25 / 0.45 / 1.8 M = $12.3457
  CHECK(to_cents(*own.per_mtok) == 54);            // $40 / 73.8 M = $0.5420

  // 2880 accepted an hour cost $57.60 there and $40 here: $17.60 x 730.
  CHECK(out.what == answer::self_host_cheaper);
  CHECK(to_cents(*out.saved_per_month) == 1'284'800);

  // A request here is worth 0.8 x $0.02 = $0.016 there. One replica: $40 / $0.016 = 2,500 an hour, of 4,000
  // that it carries. Two: $80 / $0.016 = 5,000, of 8,000; three start at 8,000 and pay from 7,500.
  CHECK(out.even->fleet_load.what == crossing::kind::at);
  CHECK(out.even->fleet_load.value == Approx(2500).epsilon(1e-12));
  CHECK(out.even->first_load.value == Approx(2500).epsilon(1e-12));
  CHECK(out.even->first_load.replicas == 1);
  CHECK(out.even->lasting_load.value == Approx(5000).epsilon(1e-12));
  CHECK(out.even->lasting_load.replicas == 2);
  // $57.60 pays for one replica: 0.5 s for a request at the peak, 0.25 s of it output; 1 s would be a prompt
  // without hits, so 1 - 0.25 = 0.75 of it must hit.
  CHECK(out.even->self_hit_rate.what == crossing::kind::at);
  CHECK(out.even->self_hit_rate.value == Approx(0.75).epsilon(1e-12));
  // $0.0138888 x 0.945 = $0.013125 a request; even at 0.95 the API takes $0.0675 - 0.95 x $0.054 = $0.0162.
  CHECK(out.even->api_hit_rate.what == crossing::kind::never);
}

TEST_CASE("example 1: what a node of eight holds of Kimi K3") {
  const auto out = compare(k3_on_one_node());
  // 1,560,860,324,864 / 8 = 195,107,540,608 of weights; 288e9 - 20e9 - that = 72,892,459,392 for state.
  REQUIRE(out.operations.memory);
  CHECK(out.operations.memory->fits);
  CHECK(out.operations.memory->free_bytes_per_gpu == 72'892'459'392);
  CHECK(out.operations.memory->sequence_bytes_per_gpu == 56'171'520);  // 449,372,160 / 8
  CHECK(out.operations.memory->token_bytes_per_gpu == 27'648);
  CHECK(out.operations.memory->gpus_min == 6);  // 1.5609e12 / 268e9 = 5.82
  REQUIRE(out.operations.contexts.size() == 3);
  CHECK(out.operations.contexts[0].per_replica == 257);  // 56,171,520 +    226,492,416: 257.88
  CHECK(out.operations.contexts[1].per_replica == 19);   // 56,171,520 +  3,623,878,656:  19.81
  CHECK(out.operations.contexts[2].per_replica == 2);    // 56,171,520 + 28,991,029,248:   2.51
  // A replica of eight fails every 11,664 / 8 = 1458 h and is repaired in 2: one time in 1460 h, 0.5 a month,
  // and is down 1/730 of the time. Two replicas of which one may be down: both are in 1/532,900 of it.
  CHECK(out.operations.losses_per_month == Approx(0.5));
  CHECK(out.operations.failing->down_share == Approx(1.0 / 730));
  CHECK(out.operations.spares_needed == 1);
  CHECK(out.operations.spares == 0);
  CHECK(out.operations.on_call_hours_per_month == Approx(10));
  CHECK_FALSE(out.operations.on_call_is_priced);
}

inputs bought_machines_and_long_prompts() {
  auto in = k3_on_one_node();
  in.traffic.requests_per_hour = 1000;
  in.traffic.peak_to_mean = 1.5;
  in.traffic.local_only_share = 0.25;
  in.traffic.kinds = {{.name = "chat", .share = 0.75, .prompt_tokens = 4'000, .output_tokens = 400},
                      {.name = "agents", .share = 0.25, .prompt_tokens = 200'000, .output_tokens = 1'000}};
  in.api.tiers.push_back({.prompt_tokens_min = 128'000,
                          .miss = 6,
                          .cached = 0.6,
                          .output = 22.5,
                          .write_5m = 6,
                          .write_1h = 12});
  in.api.hit_rate = 0.6;
  in.api.accepted_share = 0.9;
  in.api.write_5m_share = 0.5;
  in.api.write_1h_share = 0.25;
  in.api.batch_share = 0.5;
  in.api.batch_discount = 0.5;
  in.self_host.usd_per_gpu_hour = std::nullopt;
  in.self_host.purchase = purchase_inputs{
      .usd_per_replica = 3'504'000, .months = 48, .kw_per_replica = 14, .usd_per_kwh = 0.10, .pue = 1.25};
  in.self_host.hosting_usd_per_replica_month = 2'190;
  in.self_host.staff_usd_per_month = 14'600;
  in.operations.on_call_hours_per_month = 73;
  in.operations.on_call_usd_per_hour = 100;
  in.self_host.replicas = 3;
  in.self_host.spare_replicas = 1;
  in.self_host.prefill_tokens_per_s = 10'000;
  in.self_host.decode_tokens_per_s = 1'100;
  in.self_host.hit_rate = 0.5;
  in.self_host.accepted_share = 0.85;
  return in;
}

TEST_CASE("example 2: bought machines, cache writes of both tiers, long prompts at their own prices") {
  const auto out = compare(bought_machines_and_long_prompts());
  REQUIRE(out.api);
  REQUIRE(out.own);
  REQUIRE(out.even);

  // A prompt token that no cache holds: 0.25 x $3 + 0.5 x $3 + 0.25 x $6 = $3.75 a million; twice that above
  // 128,000.
  // chat:   4,000 x (0.6 x $0.30 + 0.4 x $3.75) / 1e6 = $0.00672, + 400 x $15 / 1e6 = $0.006:     $0.01272
  // agents: 200,000 x (0.6 x $0.60 + 0.4 x $7.50) / 1e6 = $0.672, + 1,000 x $22.5 / 1e6 = $0.0225: $0.6945
  // 0.75 x $0.01272 + 0.25 x $0.6945 = $0.183165; half of it at half the price: x 0.75 = $0.13737375
  CHECK(out.api->per_request == 137'373'750);
  CHECK(to_cents(out.api->per_month) == 10'028'284);  // $137.37375 x 730 = $100,282.8375
  CHECK(out.api->per_accepted == 152'637'500);        // / 0.9
  // (0.75 x $0.00672 + 0.25 x $0.672) x 0.75 = $0.12978 for 53,000 tokens: $2.44868
  CHECK(to_cents(*out.api->per_mtok_input) == 245);
  CHECK(to_cents(*out.api->per_mtok_output) == 1'381);  // $0.00759375 for 550: $13.8068

  // A replica: $3,504,000 / (48 x 730 h) = $100, 14 kW x 1.25 x $0.10 = $1.75, $2,190 / 730 = $3: $104.75.
  // On top: $14,600 / 730 = $20 staff, 73 h x $100 / 730 = $10 on call. 3 x $104.75 + $30 = $344.25 an hour.
  CHECK(out.own->cost.per_hour == 344'250'000'000);
  CHECK(to_cents(out.own->cost.per_month) == 25'130'250);  // $251,302.50
  CHECK(out.own->cost.per_accepted == 405'000'000);        // $344.25 / (1000 x 0.85) = $0.405
  // 53,000 x 0.5 / 10,000 = 2.65 s + 550 / 1,100 = 0.5 s; 1,500 x 3.15 / 3600 = 1.3125 replicas: two serve.
  CHECK(out.own->needed == 3);
  CHECK(out.own->utilisation_peak == Approx(0.65625));
  CHECK(out.own->utilisation_mean == Approx(0.4375));
  CHECK(out.what == answer::api_cheaper);
  CHECK(to_cents(*out.saved_per_month) == 543'382);
  // A quarter may not leave: 375 x 3.15 / 3600 = 0.33 replicas, one and the spare: 2 x $104.75 + $30 =
  // $239.50 an hour, $174,835. The rest at the API: 620,500 x 0.75 x $0.1526375 = $71,033.68. Together
  // $245,868.68, against $251,302.50 for all here.
  REQUIRE(out.isolated);
  CHECK(out.isolated->replicas == 2);
  CHECK(to_cents(*out.isolated->mixed_per_month) == 24'586'868);
  CHECK(to_cents(*out.isolated->own_per_month) == 25'130'250);
  // A full replica carries 3600 / (1.5 x 3.15) = 761.9 requests, worth $98.85 there: less than it costs.
  CHECK(out.even->fleet_load.what == crossing::kind::never);
  CHECK(out.even->first_load.what == crossing::kind::never);
  CHECK(out.even->lasting_load.what == crossing::kind::never);
  CHECK(out.even->self_hit_rate.what == crossing::kind::never);
  // 250 an hour have no alternative: 250 x 1.5 x 3.15 / 3600 = 0.33 replicas, and the spare.
  REQUIRE(out.isolated);
  CHECK(out.isolated->requests_per_hour == Approx(250));
  CHECK(out.isolated->replicas == 2);
}

// Kimi-Linear on four GPUs of 80 GB; memory bounds the load before work does.
inputs too_small_a_fleet() {
  auto in = k3_on_one_node();
  in.traffic.requests_per_hour = 9'000;
  in.traffic.kinds = {{.name = "all", .share = 1, .prompt_tokens = 98'000, .output_tokens = 2'000}};
  in.api.tiers = {{.prompt_tokens_min = 0, .miss = 0.2, .cached = 0.2, .output = 0.8}};
  in.api.accepted_share = 0.8;
  in.self_host.replicas = 2;
  in.self_host.gpus_per_replica = 4;
  in.self_host.usd_per_gpu_hour = 2.5;
  in.self_host.prefill_tokens_per_s = 196'000;
  in.self_host.decode_tokens_per_s = 10'000;
  in.self_host.itl_ms = 20;
  in.self_host.hit_rate = 0.5;
  in.memory = {.weights_bytes = 98'000'000'000,
               .gpu_bytes = 80'000'000'000,
               .runtime_bytes_per_gpu = 10'000'000'000,
               .state_bytes = 43'417'600,
               .page_bytes_per_token = 8'064,
               .pages_on_each_gpu = true,
               .contexts = {}};
  return in;
}

TEST_CASE("example 3: a fleet that cannot carry the load says how many replicas would") {
  const auto out = compare(too_small_a_fleet());
  REQUIRE(out.api);
  REQUIRE(out.own);
  // 80e9 - 10e9 - 98e9 / 4 = 45.5e9; a sequence of 100,000 tokens: 10,854,400 + 806,400,000: 55 fit (55.67).
  CHECK(out.operations.memory->sequences(100'000) == 55);
  // Each stays 98,000 x 0.5 / 196,000 = 0.25 s + 2,000 x 20 ms = 40.25 s: 5 a second are 201.25 at once, 3.66
  // replicas. Work: 0.25 s + 0.2 s, 2.25 replicas.
  CHECK(*out.operations.sequences_at_peak == Approx(201.25));
  CHECK(out.own->bound == "memory");
  CHECK(out.own->needed == 4);
  CHECK(out.own->replicas == 2);
  CHECK_FALSE(out.own->carries);
  CHECK(out.own->utilisation_peak == Approx(201.25 / 110));
  // The answer is about the four: $40 / (9,000 x 0.8) = $0.00555...; API: 98,000 x $0.2 / 1e6 + 2,000 x $0.8
  // / 1e6 = $0.0212 / 0.8 = $0.0265.
  REQUIRE(out.own->cost_needed);
  CHECK(out.own->cost_needed->per_accepted == 5'555'556);
  CHECK(to_cents(out.own->cost_needed->per_month) == 2'920'000);
  CHECK(to_cents(out.api->per_month) == 13'928'400);  // 9,000 x $0.0212 x 730 = $139,284.00
  CHECK(out.api->per_accepted == 26'500'000);
  CHECK(out.what == answer::self_host_cheaper);
  CHECK(to_cents(*out.saved_per_month) == 11'008'400);  // ($190.80 - $40) x 730 = $110,084.00
}

TEST_CASE("a cent is rounded from the nano-dollar, half up") {
  CHECK(to_cents(to_nano(1.005)) == 101);
  CHECK(to_cents(to_nano(1.004999999)) == 100);
  CHECK(to_cents(to_nano(0)) == 0);
  CHECK(to_nano(1e18) == std::numeric_limits<usd_nano>::max());
}

TEST_CASE("edges of traffic, acceptance and memory") {
  struct row {
    const char* name;
    void (*change)(inputs&);
    answer what;
  };
  const row rows[] = {
      {"as it is", [](inputs&) {}, answer::self_host_cheaper},
      {"no traffic", [](inputs& in) { in.traffic.requests_per_hour = 0; }, answer::api_no_traffic},
      {"at the break-even load", [](inputs& in) { in.traffic.requests_per_hour = 2500; }, answer::equal},
      {"below it", [](inputs& in) { in.traffic.requests_per_hour = 2499; }, answer::api_cheaper},
      {"on the dear part of a step", [](inputs& in) { in.traffic.requests_per_hour = 4001; },
       answer::api_cheaper},
      {"the API is never accepted", [](inputs& in) { in.api.accepted_share = 0; }, answer::self_host_cheaper},
      {"we are never accepted", [](inputs& in) { in.self_host.accepted_share = 0; }, answer::api_cheaper},
      {"nobody is accepted", [](inputs& in) { in.self_host.accepted_share = in.api.accepted_share = 0; },
       answer::neither},
      {"the weights do not fit", [](inputs& in) { in.memory.gpu_bytes = 192'000'000'000; },
       answer::api_does_not_fit},
      {"more load than any fleet carries", [](inputs& in) { in.traffic.requests_per_hour = 1e12; },
       answer::api_does_not_fit},
      {"no sequence fits beside the weights",
       [](inputs& in) {
         in.self_host.itl_ms = 10;
         in.memory.gpu_bytes = 215'200'000'000;
       },
       answer::api_does_not_fit},
      {"all hits", [](inputs& in) { in.self_host.hit_rate = in.api.hit_rate = in.traffic.reuse_share = 1; },
       answer::self_host_cheaper},  // 20,000 x $0.30 / 1e6 + $0.0075 = $0.0135 / 0.945 = $0.01429 > $0.01389
  };
  for (const auto& r : rows) {
    INFO(r.name);
    auto in = k3_on_one_node();
    r.change(in);
    const auto out = compare(in);
    CHECK(static_cast<int>(out.what) == static_cast<int>(r.what));
    CHECK(out.missing.empty());
  }
}

TEST_CASE("no traffic has a cost per hour and none per result") {
  auto in = k3_on_one_node();
  in.traffic.requests_per_hour = 0;
  const auto out = compare(in);
  REQUIRE(out.own);
  CHECK(out.api->per_hour == 0);
  CHECK(out.own->cost.per_hour == 40'000'000'000);
  CHECK_FALSE(out.own->cost.per_accepted);
  CHECK_FALSE(out.own->cost.per_mtok);
  CHECK_FALSE(out.api->per_accepted);
  CHECK(out.own->utilisation_peak == 0);
  CHECK(out.even->first_load.value == Approx(2500));
}

TEST_CASE("hit rates of none and all") {
  auto in = k3_on_one_node();
  in.self_host.hit_rate = in.api.hit_rate = 0;
  auto out = compare(in);
  CHECK(out.api->per_request == 67'500'000);            // 20,000 x $3 / 1e6 + $0.0075
  CHECK(out.own->utilisation_peak == Approx(2.5 / 3));  // 1.25 s x 2 a second, of three replicas
  in.self_host.hit_rate = in.api.hit_rate = in.traffic.reuse_share = 1;
  out = compare(in);
  CHECK(out.api->per_request == 13'500'000);        // 20,000 x $0.30 / 1e6 + $0.0075
  CHECK(out.own->utilisation_peak == Approx(0.5));  // 0.25 s x 2 / s
  CHECK(out.own->cost.per_mtok_input == 0);         // no work for what is cached
}

TEST_CASE("an input that nobody knows is named, and the API is the answer") {
  const auto named = [](const inputs& in) {
    const auto out = compare(in);
    CHECK(static_cast<int>(out.what) == static_cast<int>(answer::api_inputs_missing));
    std::string all;
    for (const auto& m : out.missing) {
      CHECK_FALSE(m.hint.empty());
      all += (all.empty() ? "" : " ") + m.key;
    }
    return all;
  };
  auto in = k3_on_one_node();
  in.self_host.decode_tokens_per_s = std::nullopt;
  CHECK(named(in) == "self_host.decode_tokens_per_s");
  in = k3_on_one_node();
  in.api.write_1h_share = 0.1;
  in.api.tiers[0].write_1h = std::nullopt;
  in.operations.repair_hours = std::nullopt;
  CHECK(named(in) == "api.prices[0].write_1h operations.repair_hours");
  in = k3_on_one_node();
  in.self_host.usd_per_gpu_hour = std::nullopt;
  CHECK(named(in) == "self_host.usd_per_gpu_hour");
  CHECK(compare(in).api);  // what is known is computed all the same
  CHECK(named({}).starts_with("traffic.requests_per_hour traffic.peak_to_mean traffic.local_only_share"));
  CHECK(compare({}).missing.size() == 22);
}

TEST_CASE("huge numbers saturate and stay numbers") {
  auto in = k3_on_one_node();
  in.traffic.requests_per_hour = k_requests_per_hour_max;
  in.traffic.kinds[0].prompt_tokens = k_tokens_per_request_max;
  in.api.tiers[0].miss = 1e6;
  in.self_host.usd_per_gpu_hour = k_usd_max;
  in.self_host.replicas = k_replicas_max;
  in.self_host.gpus_per_replica = k_gpus_max;
  in.memory.gpu_bytes = std::numeric_limits<std::int64_t>::max();
  in.memory.contexts = {std::numeric_limits<std::int64_t>::max()};
  const auto out = compare(in);
  CHECK(out.api->per_hour == std::numeric_limits<usd_nano>::max());
  CHECK(out.own->cost.per_month == std::numeric_limits<usd_nano>::max());
  CHECK(out.own->utilisation_peak > 1);
  CHECK(out.operations.contexts[0].per_replica == 0);
  for (const auto& point : curve(in, 16)) CHECK(point.requests_per_hour > 0);
}

}  // namespace
}  // namespace weir::policy::economics
