#include "gateway/costs/read_inputs.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "gateway/config/load.hpp"
#include "gateway/costs/example.hpp"

namespace weir::gateway::costs {
namespace {

std::string faults_of(std::string_view yaml) {
  const auto read = parse_inputs(yaml, "f.yaml");
  return read ? "" : config::to_text(read.error());
}

TEST_CASE("the example to fill in is whole, and is the file") {
  const auto read = parse_inputs(example_yaml(), "example");
  REQUIRE(read);
  CHECK(policy::economics::missing(*read).empty());
  CHECK(load_inputs(WEIR_SOURCE_DIR "/configs/costs/example.yaml"));
  CHECK(read->traffic.kinds.size() == 2);
  CHECK(read->memory.runtime_bytes_per_gpu == 20LL << 30);
}

TEST_CASE("Kimi K3's file has what is published, and the rest is named") {
  const auto read = load_inputs(WEIR_SOURCE_DIR "/configs/costs/kimi-k3.yaml");
  REQUIRE(read);
  const auto& tier = read->api.tiers.at(0);
  CHECK(tier.miss == 3.0);
  CHECK(tier.cached == 0.3);
  CHECK(tier.output == 15.0);
  CHECK(tier.write_5m == 3.0);
  CHECK(tier.write_1h == 6.0);
  CHECK(read->memory.state_bytes == 449'372'160);
  CHECK(read->memory.page_bytes_per_token == 27'648);
  CHECK(read->memory.weights_bytes == 1'560'860'324'864);
  CHECK(policy::economics::missing(*read).size() == 16);
}

TEST_CASE("nothing at all is unknown, not at fault") {
  CHECK(faults_of("").empty());
  CHECK(faults_of("traffic:\napi:\n").empty());
}

TEST_CASE("faults name file, line and key, and what would be right") {
  struct row {
    std::string yaml, fault;
  };
  const row rows[] = {
      {"trafic: {}", "f.yaml:1:1: trafic: unknown key; did you mean 'traffic'?"},
      {"traffic:\n  color: 1", "f.yaml:2:3: traffic.color: unknown key; known here: kinds, "},
      {"api: {hit_rate: 1.5}", "api.hit_rate: '1.5' is not a number from 0 to 1"},
      {"api: {hit_rate: nan}", "api.hit_rate: 'nan' is not a number from 0 to 1"},
      {"api: {hit_rate: }", "api.hit_rate: expected a single value"},
      {"api: {write_5m_share: 0.6, write_1h_share: 0.6}", "api.write_1h_share: a token is written once"},
      {"api: {prices: [{prompt_tokens_min: 5}]}", "prices[0].prompt_tokens_min: the first prices begin at 0"},
      {"api: {prices: [{}, {miss: 1}]}", "api.prices[1].prompt_tokens_min: must be above"},
      {"api: {prices: {miss: 1}}", "api.prices: expected a list"},
      {"traffic: {reuse_share: 0.5}\napi: {hit_rate: 0.6}", "api: hit_rate is 0.6, but only"},
      {"traffic: {reuse_share: 0.5}\nself_host: {hit_rate: 0.6}", "f.yaml:2:12: self_host: hit_rate is 0.6"},
      {"traffic: {kinds: []}", "traffic.kinds: expected 1 to 64 kinds"},
      {"traffic: {kinds: [{name: a, share: 0.5, prompt_tokens: 1, output_tokens: 1}]}",
       "traffic.kinds: the shares sum to 0.5, not to 1"},
      {"traffic: {kinds: [{name: a}]}", "traffic.kinds[0]: a kind of requests needs prompt_tokens"},
      {"traffic: {prompt_tokens: 1, kinds: [{name: a, share: 1, prompt_tokens: 1, output_tokens: 1}]}",
       "belong to each kind then"},
      {"traffic: {prompt_tokens: 0}", "'0' is not a number from 1 to 1000000000"},
      {"self_host: {replicas: 2, spare_replicas: 2}", "all replicas would be spares"},
      {"self_host: {replicas: 0}", "self_host.replicas: '0' is not a whole number from 1 to 1000000"},
      {"self_host: {usd_per_gpu_hour: 1, usd_per_replica_hour: 8}", "not several"},
      {"self_host: {purchase: {pue: 0.5}}", "self_host.purchase.pue: '0.5' is not a number from 1 to 100"},
      {"self_host: {decode_tokens_per_s: 0}", "decode_tokens_per_s: '0' is not a number"},
      {"memory: {gpu_bytes: 288GB}", "memory.gpu_bytes: '288GB' is not a size"},
      {"memory: {contexts: [8k]}", "memory.contexts: '8k' is not a number of tokens"},
      {"operations: {availability: 1}", "operations.availability: '1' is not a number"},
      {"a: [", "not valid YAML"},
      {"- a", "expected a mapping"},
  };
  for (const auto& r : rows) {
    INFO(r.yaml);
    const auto faults = faults_of(r.yaml);
    INFO(faults);
    CHECK(faults.find(r.fault) != faults.npos);
  }
}

TEST_CASE("every fault is reported at once") {
  const auto read =
      parse_inputs("api: {hit_rate: 2, x: 1}\nself_host: {replicas: a}\nmemory: {state_bytes: -1}", "f.yaml");
  REQUIRE_FALSE(read);
  CHECK(read.error().size() == 4);
}

TEST_CASE("a file that is too large or not there") {
  CHECK(faults_of(std::string(k_inputs_bytes_max + 1, ' ')).find("larger than 65536 bytes") !=
        std::string::npos);
  const auto none = load_inputs("/nonexistent/costs.yaml");
  REQUIRE_FALSE(none);
  CHECK(none.error().at(0).message.starts_with("cannot be opened"));
}

}  // namespace
}  // namespace weir::gateway::costs
