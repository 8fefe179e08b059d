#include "kernels/parallel.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/dtype.hpp"

using weir::kernels::thread_pool;

TEST_CASE("every index is handed out once, by workers in range", "[parallel]") {
  for (const int threads : {1, 2, 5}) {
    thread_pool pool(threads);
    REQUIRE(pool.thread_count() == threads);
    for (const std::int64_t count : {0, 1, 2, 7, 64, 1000}) {
      for (const std::int64_t grain : {1, 3, 2000}) {
        std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
        std::atomic<bool> bad_worker{false};
        pool.run(count, grain, [&](std::int64_t begin, std::int64_t end, int worker) {
          if (worker < 0 || worker >= threads) bad_worker = true;
          for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
        });
        for (const auto& times : seen) REQUIRE(times == 1);
        REQUIRE_FALSE(bad_worker);
      }
    }
  }
}

TEST_CASE("many short jobs in a row", "[parallel]") {
  thread_pool pool(3);
  std::int64_t total = 0;
  for (int job = 0; job < 3000; ++job) {
    std::vector<std::int64_t> parts(12, 0);
    pool.run(12, 1, [&parts](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) parts[static_cast<std::size_t>(i)] = i;
    });
    for (const std::int64_t part : parts) total += part;
  }
  CHECK(total == 3000 * 66);
}

TEST_CASE("stored numbers widen exactly", "[dtype]") {
  using namespace weir::kernels;
  struct row {
    std::uint16_t bits;
    double value;
  };
  const row halves[] = {{0x0000, 0.0},     {0x3C00, 1.0},       {0xC000, -2.0},    {0x7BFF, 65504.0},
                        {0x0001, 0x1p-24}, {0x03FF, 0x3FFp-24}, {0x0400, 0x1p-14}, {0x8001, -0x1p-24}};
  for (const row& r : halves) CHECK(static_cast<double>(f16_to_float(r.bits)) == r.value);
  CHECK(std::isinf(f16_to_float(0x7C00)));
  CHECK(std::isnan(f16_to_float(0x7E00)));
  CHECK(bf16_to_float(0x3F80) == 1.0F);
  CHECK(bf16_to_float(0xC049) == -3.140625F);
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float wide = bf16_to_float(half);
    if (!std::isnan(wide)) REQUIRE(float_to_bf16(wide) == half);
  }
  CHECK(float_to_bf16(1.00390625F) == 0x3F80);  // halfway between two: to the even one
  CHECK(float_to_bf16(1.01171875F) == 0x3F82);
  CHECK(std::isnan(bf16_to_float(float_to_bf16(std::numeric_limits<float>::quiet_NaN()))));
}
