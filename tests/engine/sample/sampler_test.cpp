#include "engine/sample/sampler.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace {

using namespace weir::engine;
using sample::sampler;

constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();
constexpr double k_inf = std::numeric_limits<double>::infinity();

sampling_params with(float temperature, std::uint64_t seed = 1) {
  sampling_params params;
  params.temperature = temperature;
  params.seed = seed;
  return params;
}

std::vector<double> logits_of(const std::vector<double>& probabilities) {
  std::vector<double> out;
  for (const double p : probabilities) out.push_back(std::log(p) + 3.0);
  return out;
}

// Frequencies of first tokens over many seeds.
std::vector<int> histogram(sampling_params params, const std::vector<double>& logits, int draws) {
  std::vector<int> counts(logits.size());
  for (int i = 0; i < draws; ++i) {
    params.seed = static_cast<std::uint64_t>(i);
    ++counts[static_cast<std::size_t>(sampler(params).next(logits).token)];
  }
  return counts;
}

double chi_square(const std::vector<int>& counts, const std::vector<double>& expected, int draws) {
  double sum = 0.0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (expected[i] == 0.0) {
      if (counts[i] != 0) return k_inf;
      continue;
    }
    const double mean = expected[i] * draws;
    sum += (counts[i] - mean) * (counts[i] - mean) / mean;
  }
  return sum;
}

}  // namespace

TEST_CASE("greedy takes the largest, the lowest id on a tie", "[sampler]") {
  struct row {
    const char* name;
    std::vector<double> logits;
    std::int32_t token;
  };
  const row rows[] = {{"plain", {0.0, 2.0, 1.0}, 1},
                      {"tie", {1.0, 3.0, 3.0}, 1},
                      {"all equal", {5.0, 5.0, 5.0}, 0},
                      {"NaN first", {k_nan, -1.0, -2.0}, 1},
                      {"NaN later", {-1.0, k_nan, -2.0}, 0},
                      {"all NaN", {k_nan, k_nan}, 0},
                      {"infinite", {0.0, k_inf, 1.0}, 1},
                      {"all minus infinite", {-k_inf, -k_inf}, 0},
                      {"one token", {-7.0}, 0}};
  for (const row& r : rows) {
    INFO(r.name);
    CHECK(sampler(with(0.0F)).next(r.logits).token == r.token);
    const std::int32_t drawn = sampler(with(1.0F)).next(r.logits).token;
    CHECK(drawn >= 0);
    CHECK(drawn < static_cast<std::int32_t>(r.logits.size()));
  }
}

TEST_CASE("draws follow the filtered distribution", "[sampler]") {
  struct row {
    const char* name;
    sampling_params params;
    std::vector<double> expected;
  };
  const std::vector<double> p{0.05, 0.4, 0.1, 0.25, 0.2};
  auto top_k = with(1.0F);
  top_k.top_k = 2;
  auto top_p = with(1.0F);
  top_p.top_p = 0.6F;
  auto top_p_exact = with(1.0F);
  top_p_exact.top_p = 0.3F;
  auto min_p = with(1.0F);
  min_p.min_p = 0.3F;
  auto all = with(1.0F);
  all.top_k = 3;
  all.top_p = 0.7F;
  all.min_p = 0.55F;
  double heated_sum = 0.0;
  std::vector<double> heated;
  for (const double one : p) heated_sum += std::pow(one, 2.0);
  for (const double one : p) heated.push_back(std::pow(one, 2.0) / heated_sum);
  const row rows[] = {{"plain", with(1.0F), p},
                      {"temperature 0.5 squares", with(0.5F), heated},
                      {"top_k 2", top_k, {0, 0.4 / 0.65, 0, 0.25 / 0.65, 0}},
                      {"top_p 0.6 needs two", top_p, {0, 0.4 / 0.65, 0, 0.25 / 0.65, 0}},
                      {"top_p below the best keeps one", top_p_exact, {0, 1, 0, 0, 0}},
                      {"min_p 0.3 of 0.4", min_p, {0, 0.4 / 0.85, 0, 0.25 / 0.85, 0.2 / 0.85}},
                      {"top_k, then top_p of the rest, then min_p", all, {0, 0.4 / 0.65, 0, 0.25 / 0.65, 0}}};
  constexpr int k_draws = 40000;
  constexpr double k_chi_square_max = 18.5;  // 4 degrees of freedom, p = 0.001; the seeds are fixed
  for (const row& r : rows) {
    INFO(r.name);
    CHECK(chi_square(histogram(r.params, logits_of(p), k_draws), r.expected, k_draws) < k_chi_square_max);
  }
}

TEST_CASE("a wide nucleus is found past the sorted front", "[sampler]") {
  std::vector<double> p(3000);
  double total = 0.0;
  for (std::size_t i = 0; i < p.size(); ++i)
    total += p[i] = 1.0 / (1.0 + static_cast<double>((i * 7919) % p.size()));
  for (double& one : p) one /= total;
  auto params = with(1.0F);
  params.top_p = 0.9F;
  std::vector<double> sorted = p;
  std::sort(sorted.rbegin(), sorted.rend());
  double sum = 0.0;
  double smallest_kept = 0.0;
  for (const double one : sorted) {
    if (sum >= 0.9) break;
    sum += smallest_kept = one;
  }
  const std::vector<int> counts = histogram(params, logits_of(p), 2000);
  bool tail_seen = false;
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (p[i] < smallest_kept * 0.999) CHECK(counts[i] == 0);
    tail_seen = tail_seen || (counts[i] > 0 && p[i] < sorted[200]);
  }
  CHECK(tail_seen);
}

TEST_CASE("penalties and bias shift logits, on generated tokens only", "[sampler]") {
  auto frequency = with(0.0F);
  frequency.frequency_penalty = 0.6F;
  sampler repeated(frequency);
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < 6; ++i) tokens.push_back(repeated.next(std::vector<double>{2.0, 1.0, 0.9}).token);
  // 2.0, 1.4, then 0.8 < 1.0, then 0.9, then 0.8 (token 0, third time), then 0.4 (token 1)
  CHECK(tokens == std::vector<std::int32_t>{0, 0, 1, 2, 0, 1});

  auto presence = with(0.0F);
  presence.presence_penalty = 1.5F;
  sampler once(presence);
  tokens.clear();
  for (int i = 0; i < 4; ++i) tokens.push_back(once.next(std::vector<double>{2.0, 1.0, 0.0}).token);
  CHECK(tokens == std::vector<std::int32_t>{0, 1, 0, 0});

  auto biased = with(0.0F);
  biased.logit_bias = {{2, 100.0F}, {1, -100.0F}};
  CHECK(sampler(biased).next(std::vector<double>{3.0, 50.0, -2.0}).token == 2);
}

TEST_CASE("log-probabilities are of the model's own distribution", "[sampler]") {
  const std::vector<double> p{0.1, 0.5, 0.1, 0.3};
  auto params = with(0.3F);
  params.top_k = 1;
  params.logit_bias = {{0, 100.0F}};
  params.top_logprobs = 3;
  const token_event event = sampler(params).next(logits_of(p));
  CHECK(event.token == 0);
  CHECK(event.logprob == Approx(std::log(0.1)).margin(1e-6));
  REQUIRE(event.top.size() == 3);
  CHECK(event.top[0].token == 1);
  CHECK(event.top[1].token == 3);
  CHECK(event.top[2].token == 0);
  CHECK(event.top[1].logprob == Approx(std::log(0.3)).margin(1e-6));

  params.top_logprobs = 0;
  CHECK(sampler(params).next(logits_of(p)).top.empty());
  CHECK(sampler(params).next(logits_of(p)).logprob < 0.0F);
  params.top_logprobs = -1;
  CHECK(sampler(params).next(logits_of(p)).logprob == 0.0F);
  params.top_logprobs = 20;
  CHECK(sampler(params).next(logits_of(p)).top.size() == p.size());
}

TEST_CASE("the random stream is fixed by seed and index", "[sampler]") {
  // Computed apart from this code, from the definition of splitmix64: they hold on every platform.
  CHECK(sample::uniform(0x0ULL, 0x0ULL) == 0x1.4e0dba5e9a32fp-1);
  CHECK(sample::uniform(0x0ULL, 0x1ULL) == 0x1.6705460be8829p-1);
  CHECK(sample::uniform(0x2AULL, 0x7ULL) == 0x1.782d47a99890cp-1);
  CHECK(sample::uniform(0xFFFFFFFFFFFFFFFFULL, 0xFFFFFFFFFFFFFFFFULL) == 0x1.1140638c16042p-2);
  CHECK(sample::uniform(0, 0) != sample::uniform(0, 1));
  CHECK(sample::uniform(0, 1) != sample::uniform(1, 0));
  double sum = 0.0;
  for (std::uint64_t i = 0; i < 10000; ++i) {
    const double value = sample::uniform(42, i);
    REQUIRE(value >= 0.0);
    REQUIRE(value < 1.0);
    sum += value;
  }
  CHECK(sum / 10000 == Approx(0.5).margin(0.01));
  const std::vector<double> flat(50, 0.0);
  std::vector<std::int32_t> first, again, other;
  sampler a(with(1.0F, 9)), b(with(1.0F, 9)), c(with(1.0F, 10));
  for (int i = 0; i < 20; ++i) {
    first.push_back(a.next(flat).token);
    again.push_back(b.next(flat).token);
    other.push_back(c.next(flat).token);
  }
  CHECK(first == again);
  CHECK(first != other);
}

TEST_CASE("check names the first value out of range", "[sampler]") {
  constexpr float k_float_nan = std::numeric_limits<float>::quiet_NaN();
  struct row {
    const char* name;  // must occur in the error; null: accepted
    void (*change)(sampling_params&);
  };
  const row rows[] = {
      {nullptr, [](sampling_params&) {}},
      {nullptr,
       [](sampling_params& p) { p.temperature = 2.0F, p.top_p = 1e-9F, p.top_k = 1 << 30, p.min_p = 1.0F; }},
      {"temperature", [](sampling_params& p) { p.temperature = -0.1F; }},
      {"temperature", [](sampling_params& p) { p.temperature = 2.1F; }},
      {"temperature", [](sampling_params& p) { p.temperature = k_float_nan; }},
      {"top_p", [](sampling_params& p) { p.top_p = 0.0F; }},
      {"top_p", [](sampling_params& p) { p.top_p = 1.01F; }},
      {"top_k", [](sampling_params& p) { p.top_k = -1; }},
      {"min_p", [](sampling_params& p) { p.min_p = 1.5F; }},
      {"presence_penalty", [](sampling_params& p) { p.presence_penalty = -2.5F; }},
      {"frequency_penalty", [](sampling_params& p) { p.frequency_penalty = k_float_nan; }},
      {"top_logprobs", [](sampling_params& p) { p.top_logprobs = 21; }},
      {"top_logprobs", [](sampling_params& p) { p.top_logprobs = -2; }},
      {"logit_bias",
       [](sampling_params& p) {
         p.logit_bias = {{10, 1.0F}};
       }},
      {"logit_bias",
       [](sampling_params& p) {
         p.logit_bias = {{-1, 1.0F}};
       }},
      {"logit_bias",
       [](sampling_params& p) {
         p.logit_bias = {{3, 101.0F}};
       }},
      {"logit_bias",
       [](sampling_params& p) {
         p.logit_bias.assign(2000, {1, 0.0F});
       }},
  };
  for (const row& r : rows) {
    sampling_params params;
    r.change(params);
    const auto checked = check(params, 10);
    INFO((r.name == nullptr ? "accepted" : r.name) << ": " << (checked ? "" : checked.error().detail));
    REQUIRE(checked.has_value() == (r.name == nullptr));
    if (!checked) {
      CHECK(checked.error().code == errc::bad_request);
      CHECK(checked.error().detail.find(r.name) != std::string::npos);
    }
  }
}

TEST_CASE("a constraint leaves only what it allows", "[sampler]") {
  struct row {
    const char* name;
    std::vector<double> logits;
    std::vector<std::int32_t> allowed;
    std::int32_t greedy;
  };
  const row rows[] = {{"best is out", {0.0, 2.0, 1.0}, {0, 2}, 2},
                      {"one left", {0.0, 2.0, 1.0}, {0}, 0},
                      {"tie", {1.0, 3.0, 1.0}, {0, 2}, 0},
                      {"minus infinite", {1.0, 3.0, -k_inf}, {2}, 2},
                      {"NaN", {1.0, 3.0, k_nan}, {2}, 2},
                      {"NaN beside a number", {1.0, k_nan, -5.0}, {1, 2}, 2},
                      {"behind the vocabulary", {1.0, 3.0, 2.0}, {0, 70}, 0}};
  for (const row& r : rows) {
    INFO(r.name);
    token_mask mask;
    for (const std::int32_t token : r.allowed) insert(mask, token);
    CHECK(sampler(with(0.0F)).next(r.logits, &mask).token == r.greedy);
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      CHECK(contains(mask, sampler(with(2.0F, seed)).next(r.logits, &mask).token));
    }
  }
}

TEST_CASE("within a constraint draws follow the distribution, logprobs are of the whole", "[sampler]") {
  const std::vector<double> logits = logits_of({0.5, 0.3, 0.15, 0.05});
  token_mask mask;
  insert(mask, 1);
  insert(mask, 3);
  std::vector<int> counts(4);
  constexpr int k_draws = 3500;
  for (int i = 0; i < k_draws; ++i) {
    ++counts[static_cast<std::size_t>(
        sampler(with(1.0F, static_cast<std::uint64_t>(i))).next(logits, &mask).token)];
  }
  const std::vector<double> expected{0.0, 0.3 / 0.35, 0.0, 0.05 / 0.35};
  CHECK(chi_square(counts, expected, k_draws) < 15.0);
  sampling_params params = with(0.0F);
  params.top_logprobs = 2;
  const token_event event = sampler(params).next(logits, &mask);
  CHECK(event.token == 1);
  CHECK(event.logprob == Approx(std::log(0.3)));
  REQUIRE(event.top.size() == 2);
  CHECK(event.top[0].token == 0);
  CHECK(event.top[0].logprob == Approx(std::log(0.5)));
}
