// What keeps state between calls: the convolution's tails and the latents in their pages.
#include "kernels/cuda/table.hpp"
#include "tests/kernels/support.hpp"

namespace {

using namespace weir;
using namespace weir::tests;

const auto k_reference = kernels::make_reference_table();
const auto k_cuda = kernels::make_cuda_table(kernels::activation_format::float32);
constexpr double k_row_tolerance = 2e-6;
constexpr std::int64_t k_gaps[] = {12, 13};  // between slots and between pages, for and against float4

void check_conv(std::mt19937_64& random, const std::vector<test_batch::part>& parts, std::int32_t taps,
                std::int32_t channels, std::int64_t gap) {
  INFO(parts.size() << " sequences, " << taps << " taps, " << channels << " channels, gap " << gap);
  const test_batch batch(random, parts, 4);
  const both x(random, static_cast<std::int64_t>(batch.rows()) * channels);
  const both weight(random, taps * channels);
  const std::int64_t stride = (taps - 1) * channels + gap;
  both state(random, batch.slots() * stride);
  both y = zeros(static_cast<std::int64_t>(batch.rows()) * channels);
  k_reference.short_conv({x.wide.data(), weight.narrow.data(), taps > 1 ? state.wide.data() : nullptr,
                          y.wide.data(), batch.view(), channels, taps, stride},
                         {});
  k_cuda.short_conv({x.narrow.data(), weight.narrow.data(), taps > 1 ? state.narrow.data() : nullptr,
                     y.narrow.data(), batch.view(), channels, taps, stride},
                    {});
  double largest = 1.0, distance = 0.0;
  for (std::size_t i = 0; i < y.wide.size(); ++i) {
    largest = std::max(largest, std::fabs(y.wide[i]));
    const double off = std::fabs(y.wide[i] - static_cast<double>(y.narrow[i]));
    distance = off <= distance ? distance : off;  // also where it is no number
  }
  CHECK(distance <= k_row_tolerance * largest);
  CHECK(std::equal(state.wide.begin(), state.wide.end(), state.narrow.begin()));
}

}  // namespace

TEST_CASE("cuda: short_conv carries its tail in the slots", "[cuda]") {
  std::mt19937_64 random(16);
  for (const auto& parts : awkward_batches()) {
    for (const std::int32_t taps : {1, 2, 4, 16}) {
      for (const std::int32_t channels : {1, 9, 64, 516}) {
        for (const std::int64_t gap : k_gaps) check_conv(random, parts, taps, channels, gap);
      }
    }
  }
}

TEST_CASE("cuda: short_conv with several rows a thread, sequences beginning anywhere in them", "[cuda]") {
  std::mt19937_64 random(17);
  std::vector<test_batch::part> parts{{0, 400}, {7, 1}, {0, 1}, {3, 2}, {0, 2}, {9, 3}, {0, 300}, {1, 390}};
  check_conv(random, parts, 4, 2048, 12);
}

TEST_CASE("cuda: mla_store in both formats", "[cuda]") {
  std::mt19937_64 random(18);
  struct row {
    std::int32_t width, page_tokens;
  };
  for (const row& r : {row{1, 1}, row{40, 4}, row{67, 5}, row{576, 16}, row{1028, 3}}) {
    for (const auto& parts : awkward_batches()) {
      for (const std::int64_t gap : k_gaps) {
        INFO(parts.size() << " sequences, width " << r.width << ", pages of " << r.page_tokens);
        const test_batch batch(random, parts, r.page_tokens);
        const std::int64_t stride = r.page_tokens * r.width + gap;
        both pages(random, batch.page_count * stride);
        const both latents(random, static_cast<std::int64_t>(batch.rows()) * r.width);
        std::vector<std::uint16_t> halves;
        for (const float value : pages.narrow) halves.push_back(kernels::float_to_bf16(value));
        k_reference.mla_store(
            {latents.wide.data(), pages.wide.data(), batch.view(), r.width, r.page_tokens, stride}, {});
        k_cuda.mla_store(
            {latents.narrow.data(), pages.narrow.data(), batch.view(), r.width, r.page_tokens, stride}, {});
        k_cuda.mla_store({latents.narrow.data(), halves.data(), batch.view(), r.width, r.page_tokens, stride,
                          kernels::latent_format::bf16},
                         {});
        CHECK(std::equal(pages.wide.begin(), pages.wide.end(), pages.narrow.begin()));
        CHECK(std::equal(
            pages.narrow.begin(), pages.narrow.end(), halves.begin(),
            [](float value, std::uint16_t bits) { return kernels::float_to_bf16(value) == bits; }));
      }
    }
  }
}
