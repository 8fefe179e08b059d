// Products: CUDA's sources, emulated, against the reference, which is given rounded activations where they
// are rounded.
#include "tests/kernels/cuda/products.hpp"

namespace {

using namespace weir;
using namespace weir::tests;
using kernels::activation_format;
using kernels::dtype;

const auto k_reference = kernels::make_reference_table();
const auto k_exact = kernels::make_cuda_table(activation_format::float32);
const auto k_narrow = kernels::make_cuda_table(activation_format::narrow);
constexpr dtype k_dtypes[] = {dtype::f32, dtype::bf16, dtype::f16, dtype::int8, dtype::mxfp4};
constexpr double k_tolerance = 4e-6;  // of the largest output: float32 sums of up to a thousand terms

std::vector<float> multiply(const kernels::kernel_table<float>& table, const float* a, const stored_matrix& b,
                            std::int32_t rows) {
  kernels::thread_pool pool(1);
  std::vector<float> c(static_cast<std::size_t>(rows) * static_cast<std::size_t>(b.view.rows), -7.0F);
  guarded_gemm(table, {a, b.view, c.data(), rows}, pool);
  return c;
}

void check_product(std::mt19937_64& random, dtype type, std::int32_t rows, std::int32_t cols,
                   std::int32_t depth) {
  INFO("dtype " << static_cast<int>(type) << " [" << rows << "," << depth << "] x [" << cols << "," << depth
                << "]");
  const both a(random, static_cast<std::int64_t>(rows) * depth, 0.1);
  const both near = narrowed(type, a);
  const stored_matrix b(random, type, cols, depth);
  both c = zeros(static_cast<std::int64_t>(rows) * cols);
  k_reference.gemm({near.wide.data(), b.view, c.wide.data(), rows}, {});
  c.narrow = multiply(k_narrow, a.narrow.data(), b, rows);
  check_close(c, k_tolerance);
  k_reference.gemm({a.wide.data(), b.view, c.wide.data(), rows}, {});
  c.narrow = multiply(k_exact, a.narrow.data(), b, rows);
  check_close(c, k_tolerance);
}

}  // namespace

TEST_CASE("cuda: products of few tokens", "[cuda]") {
  const dtype type = GENERATE(from_range(std::begin(k_dtypes), std::end(k_dtypes)));
  std::mt19937_64 random(61);
  for (const std::int32_t depth : {64, 192, 1152}) {
    for (const std::int32_t cols : {1, 15, 33}) {
      for (const std::int32_t rows : {1, 2, 8, 9, 32}) check_product(random, type, rows, cols, depth);
    }
  }
}

TEST_CASE("cuda: products of a depth that is not whole, of parts of groups and steps", "[cuda]") {
  std::mt19937_64 random(62);
  for (const std::int32_t depth : {1, 7, 8, 33, 40, 259, 264}) {
    for (const dtype type : {dtype::f32, dtype::bf16, dtype::f16}) check_product(random, type, 3, 18, depth);
    check_product(random, dtype::bf16, 37, 18, depth);
  }
  for (const std::int32_t depth : {32, 96, 160, 480}) {
    for (const std::int32_t rows : {1, 5, 35}) check_product(random, dtype::mxfp4, rows, 18, depth);
  }
}

TEST_CASE("cuda: products of many tokens", "[cuda]") {
  std::mt19937_64 random(63);
  for (const dtype type : {dtype::bf16, dtype::mxfp4}) {
    check_product(random, type, 33, 257, 192);
    check_product(random, type, 131, 40, 640);
  }
  check_product(random, dtype::int8, 41, 19, 128);
}

TEST_CASE("cuda: matrices so large that warps share blocks otherwise", "[cuda]") {
  std::mt19937_64 random(64);
  check_product(random, dtype::bf16, 2, 132 * 32 + 5, 64);
  check_product(random, dtype::mxfp4, 1, 264 * 64 + 3, 32);
}

TEST_CASE("cuda: operands that are not aligned take the way that needs no alignment", "[cuda]") {
  std::mt19937_64 random(65);
  const stored_matrix b(random, dtype::bf16, 21, 65);
  const both a(random, 3 * 64 + 1);
  kernels::matrix odd = b.view;  // starts two bytes behind
  odd.data = b.halves.data() + 1;
  odd.rows = 20;
  odd.cols = 64;
  both c = zeros(3 * 20);
  kernels::thread_pool pool(1);
  k_reference.gemm({a.wide.data(), odd, c.wide.data(), 3}, {});
  guarded_gemm(k_exact, {a.narrow.data(), odd, c.narrow.data(), 3}, pool);
  check_close(c, k_tolerance);
  const stored_matrix whole(random, dtype::bf16, 20, 64);
  k_reference.gemm({a.wide.data() + 1, whole.view, c.wide.data(), 3}, {});
  guarded_gemm(k_exact, {a.narrow.data() + 1, whole.view, c.narrow.data(), 3}, pool);
  check_close(c, k_tolerance);
}

TEST_CASE("cuda: a row's products among few tokens are those of the row alone", "[cuda]") {
  const dtype type = GENERATE(dtype::f32, dtype::bf16, dtype::mxfp4);
  std::mt19937_64 random(66);
  const std::int32_t depth = 480, cols = 39, most = 20;
  const both a(random, most * depth);
  const stored_matrix b(random, type, cols, depth);
  for (const auto* table : {&k_exact, &k_narrow}) {
    const auto together = multiply(*table, a.narrow.data(), b, most);
    for (const std::int32_t row : {0, 7, 8, 19}) {
      const auto alone = multiply(*table, a.narrow.data() + row * depth, b, 1);
      CHECK(std::equal(alone.begin(), alone.end(), together.begin() + row * cols));
    }
  }
}

TEST_CASE("cuda: every MXFP4 code at every scale", "[cuda]") {
  // Row s holds all codes with the scale byte s, and the activations pick one of them.
  std::vector<std::uint8_t> codes, scales;
  for (int s = 0; s < 256; ++s) {
    for (int byte = 0; byte < 16; ++byte) codes.push_back(static_cast<std::uint8_t>(byte % 8 * 34 + 16));
    scales.push_back(static_cast<std::uint8_t>(s));
  }
  const kernels::matrix m{codes.data(), dtype::mxfp4, 256, 32, scales.data()};
  std::vector<float> a(32 * 32, 0.0F), c(32 * 256);
  for (std::size_t i = 0; i < 32; ++i) a[i * 32 + i] = 1.0F;
  kernels::thread_pool pool(1);
  guarded_gemm(k_narrow, {a.data(), m, c.data(), 32}, pool);
  for (std::size_t k = 0; k < 32; ++k) {
    for (std::size_t s = 0; s < 256; ++s) {
      const auto expected = kernels::load_mxfp4(codes.data(), scales.data(), s * 32 + k);
      if (s < 253 || s == 255) CHECK(c[k * 256 + s] == expected);  // beyond, 6 times the scale is infinite
    }
  }
}

TEST_CASE("cuda: activations that are no numbers stay in their row", "[cuda]") {
  const dtype type = GENERATE(dtype::f32, dtype::bf16, dtype::mxfp4);
  std::mt19937_64 random(67);
  const std::int32_t depth = 128, cols = 20, rows = 6;
  const both a(random, rows * depth);
  const stored_matrix b(random, type, cols, depth);
  for (const auto* table : {&k_exact, &k_narrow}) {
    const auto clean = multiply(*table, a.narrow.data(), b, rows);
    for (const float odd :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      auto x = a.narrow;
      x[2 * depth + 40] = odd;
      const auto c = multiply(*table, x.data(), b, rows);
      for (std::int32_t i = 0; i < rows * cols; ++i) {
        const auto at = static_cast<std::size_t>(i);
        if (i / cols != 2) CHECK(c[at] == clean[at]);
        if (i / cols == 2 && std::isnan(odd)) CHECK(std::isnan(c[at]));
      }
    }
  }
}
