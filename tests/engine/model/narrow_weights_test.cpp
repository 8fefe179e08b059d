#include "engine/model/narrow_weights.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <limits>
#include <random>
#include <vector>

#include "engine/plan/model_sizes.hpp"
#include "engine/runner/model_runner.hpp"

namespace {

using namespace weir::engine;
using weir::kernels::dtype;
using weir::kernels::matrix;
namespace kernels = weir::kernels;

// A narrowed matrix with its own bytes.
struct narrowed {
  std::vector<std::uint8_t> codes;
  std::vector<float> factors;
  std::vector<std::uint8_t> exponents;
  matrix view;

  narrowed(const std::vector<float>& values, dtype type, std::int32_t cols, int threads = 1) {
    const auto count = static_cast<std::int32_t>(values.size());
    codes.resize(values.size());
    factors.resize(values.size() / kernels::k_int8_group);
    exponents.resize(values.size() / kernels::k_mxfp4_group);
    const void* scales = type == dtype::int8 ? static_cast<const void*>(factors.data()) : exponents.data();
    view = {codes.data(), type, count / cols, cols, scales};
    kernels::thread_pool pool(threads);
    model::narrow_matrix({values.data(), dtype::f32, count / cols, cols}, view, pool);
  }

  float operator[](std::size_t i) const {
    return view.type == dtype::int8 ? kernels::load_int8(view.data, view.factors(), i)
                                    : kernels::load_mxfp4(view.data, view.exponents(), i);
  }
};

std::vector<float> normal(std::uint64_t seed, std::size_t count, float spread) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> draw(0.0F, spread);
  std::vector<float> out(count);
  std::ranges::generate(out, [&] { return draw(random); });
  return out;
}

std::filesystem::path source(const char* name) {
  return std::filesystem::path(WEIR_SOURCE_DIR) / name;
}

std::int64_t bytes_of(const std::filesystem::path& dir, weight_format format) {
  const auto model = runner::load_model(dir, {.weights = format, .threads = 2});
  REQUIRE(model);
  return (*model)->weights.weight_bytes;
}

}  // namespace

TEST_CASE("int8 keeps every value within half a step of its group", "[narrow]") {
  for (const float spread : {1e-30F, 0.02F, 1e20F}) {
    const auto values = normal(7, 5 * 128, spread);
    const narrowed got(values, dtype::int8, 128);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto group = values.begin() + static_cast<std::ptrdiff_t>(i / 64 * 64);
      float largest = 0;
      std::for_each(group, group + 64, [&](float v) { largest = std::max(largest, std::fabs(v)); });
      CHECK(std::fabs(got[i] - values[i]) <= largest / 127 * 0.5001F);
      if (std::fabs(values[i]) == largest) CHECK(got[i] == Approx(values[i]).epsilon(1e-6));
    }
  }
}

TEST_CASE("values that MXFP4 can hold come through unchanged", "[narrow]") {
  std::mt19937_64 random(11);
  std::vector<float> values(4 * 64);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto scale = static_cast<float>(std::ldexp(1.0, static_cast<int>(i / 32) * 9 - 40));
    // The largest code is in each group, which leaves one exponent alone.
    const std::size_t code = i % 32 == 5 ? 7 : random() % 16;
    values[i] = 0.5F * static_cast<float>(kernels::k_e2m1_doubled[code]) * scale;
  }
  const narrowed got(values, dtype::mxfp4, 64);
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(got[i] == values[i]);
}

TEST_CASE("MXFP4 takes the nearest of its values, and the better of two exponents", "[narrow]") {
  const auto values = normal(13, 64 * 32, 0.02F);
  const narrowed got(values, dtype::mxfp4, 32);
  for (std::size_t group = 0; group < values.size() / 32; ++group) {
    double seen = 0;
    std::array<double, 2> possible{};
    const auto from = values.begin() + static_cast<std::ptrdiff_t>(group * 32);
    const float largest = std::fabs(
        *std::max_element(from, from + 32, [](float a, float b) { return std::fabs(a) < std::fabs(b); }));
    for (std::size_t i = 0; i < 32; ++i) {
      const auto value = static_cast<double>(from[static_cast<std::ptrdiff_t>(i)]);
      seen += std::pow(static_cast<double>(got[group * 32 + i]) - value, 2);
      for (std::size_t more = 0; more < 2; ++more) {
        const double scale = std::ldexp(0.5, std::ilogb(largest) - 2 + static_cast<int>(more));
        double nearest = std::numeric_limits<double>::max();
        for (const int doubled : kernels::k_e2m1_doubled) {
          nearest = std::min(nearest, std::fabs(doubled * scale - value));
        }
        possible[more] += nearest * nearest;
      }
    }
    CHECK(seen == Approx(std::min(possible[0], possible[1])).epsilon(1e-6));
  }
}

TEST_CASE("groups of zeros, tiny, huge and broken values stay finite", "[narrow]") {
  constexpr float inf = std::numeric_limits<float>::infinity();
  std::vector<float> values(128, 0.0F);
  values[3] = std::numeric_limits<float>::denorm_min();
  values[64] = inf;
  values[65] = -inf;
  values[66] = std::numeric_limits<float>::quiet_NaN();
  values[67] = std::numeric_limits<float>::max();
  for (const dtype type : {dtype::int8, dtype::mxfp4}) {
    const narrowed got(values, type, 64);
    for (std::size_t i = 0; i < values.size(); ++i) CHECK(std::isfinite(got[i]));
    for (std::size_t i = 0; i < 32; ++i) CHECK(std::fabs(got[i]) <= 1e-37F);
  }
}

TEST_CASE("the thread count changes no bit", "[narrow]") {
  const auto values = normal(17, 999 * 192, 0.1F);
  for (const dtype type : {dtype::int8, dtype::mxfp4}) {
    const narrowed one(values, type, 192, 1);
    const narrowed four(values, type, 192, 4);
    CHECK(one.codes == four.codes);
    CHECK(one.factors == four.factors);
    CHECK(one.exponents == four.exponents);
  }
}

TEST_CASE("narrowed weights take what the plan says", "[narrow]") {
  for (const char* name : {"tests/data/kimi-linear-a", "tests/data/kimi-k3-a"}) {
    const auto dir = source(name);
    const auto config = model::load_model_config(dir);
    REQUIRE(config);
    const std::int64_t stored = bytes_of(dir, weight_format::stored);
    const std::int64_t planned = plan::weight_bytes(*config);
    for (const weight_format format : {weight_format::int8, weight_format::mxfp4}) {
      INFO(name << ' ' << static_cast<int>(format));
      const std::int64_t narrow = bytes_of(dir, format);
      CHECK((narrow < stored || (config->packed_experts && format == weight_format::mxfp4)));
      CHECK(stored - narrow == planned - plan::weight_bytes(*config, format));
    }
  }
}
