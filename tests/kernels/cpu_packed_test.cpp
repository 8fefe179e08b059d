// Weights in MXFP4: what the codes mean, and the CPU backend's products over them against the reference.
#include "tests/kernels/support.hpp"

namespace {

using namespace weir;
using namespace weir::tests;
using kernels::dtype;

const auto k_reference = kernels::make_reference_table();
const auto k_cpu = kernels::make_cpu_table();
constexpr double k_tolerance = 4e-6;  // of the largest output, as for other weights

}  // namespace

TEST_CASE("MXFP4 codes and scales mean what the format says", "[kernels]") {
  constexpr float k_magnitudes[] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  const std::uint8_t one = 127;
  for (std::uint8_t code = 0; code < 16; ++code) {
    const float expected = code < 8 ? k_magnitudes[code] : -k_magnitudes[code - 8];
    const std::uint8_t low = code;
    const auto high = static_cast<std::uint8_t>(code << 4);
    CHECK(kernels::load_mxfp4(&low, &one, 0) == expected);
    CHECK(kernels::load_mxfp4(&low, &one, 1) == 0.0F);
    CHECK(kernels::load_mxfp4(&high, &one, 1) == expected);
  }
  for (int byte = 0; byte < 255; ++byte) {
    CHECK(static_cast<double>(kernels::e8m0_to_float(static_cast<std::uint8_t>(byte))) ==
          std::ldexp(1.0, byte - 127));
  }
  CHECK(kernels::e8m0_to_float(255) == 0.0F);  // the format's NaN
}

TEST_CASE("gemm over MXFP4", "[kernels]") {
  WEIR_FOR_EACH_INSTRUCTION_SET();
  std::mt19937_64 random(31);
  for (const int threads : {1, 3}) {
    kernels::thread_pool pool(threads);
    for (const std::int32_t rows : {1, 2, 3, 4, 5, 8, 13}) {
      for (const std::int32_t cols : {1, 3, 4, 33}) {
        for (const std::int32_t depth : {32, 64, 96, 320, 1024}) {
          INFO("[" << rows << "," << depth << "] x [" << cols << "," << depth << "]");
          const both a(random, static_cast<std::int64_t>(rows) * depth);
          const stored_matrix b(random, dtype::mxfp4, cols, depth);
          both c = zeros(static_cast<std::int64_t>(rows) * cols);
          k_reference.gemm({a.wide.data(), b.view, c.wide.data(), rows}, {});
          guarded_gemm(k_cpu, {a.narrow.data(), b.view, c.narrow.data(), rows}, pool);
          check_close(c, k_tolerance);
        }
      }
    }
  }
}

TEST_CASE("gemm over MXFP4 split over threads gives each row as alone", "[kernels]") {
  WEIR_FOR_EACH_INSTRUCTION_SET();
  std::mt19937_64 random(32);
  kernels::thread_pool pool(4);
  const std::int32_t rows = 7, cols = 1027, depth = 512;
  const both a(random, rows * depth);
  const stored_matrix b(random, dtype::mxfp4, cols, depth);
  both c = zeros(rows * cols);
  k_reference.gemm({a.wide.data(), b.view, c.wide.data(), rows}, {});
  guarded_gemm(k_cpu, {a.narrow.data(), b.view, c.narrow.data(), rows}, pool);
  check_close(c, k_tolerance);
  std::vector<float> alone(cols);
  for (std::int32_t row = 0; row < rows; ++row) {
    guarded_gemm(k_cpu, {a.narrow.data() + row * depth, b.view, alone.data(), 1}, pool);
    CHECK(std::equal(alone.begin(), alone.end(), c.narrow.begin() + row * cols));
  }
}

TEST_CASE("experts over MXFP4 with SiTU and without", "[kernels]") {
  WEIR_FOR_EACH_INSTRUCTION_SET();
  std::mt19937_64 random(33);
  struct row {
    std::int32_t rows, experts, chosen, dim, width;
    kernels::situ_bounds situ;
  };
  const row rows[] = {{1, 1, 1, 32, 32, {4.0, 25.0}},
                      {1, 8, 2, 64, 96, {4.0, 25.0}},
                      {7, 4, 4, 96, 32, {}},
                      {33, 9, 3, 64, 64, {1.5, 2.0}}};
  for (const row& r : rows) {
    INFO(r.rows << " rows, " << r.experts << " experts, " << r.chosen << " chosen");
    std::vector<stored_matrix> owned;
    std::vector<kernels::matrix> w1, w3, w2;
    for (std::int32_t e = 0; e < r.experts; ++e) {
      w1.push_back(owned.emplace_back(random, dtype::mxfp4, r.width, r.dim).view);
      w3.push_back(owned.emplace_back(random, dtype::mxfp4, r.width, r.dim).view);
      w2.push_back(owned.emplace_back(random, dtype::mxfp4, r.dim, r.width).view);
    }
    const both x(random, static_cast<std::int64_t>(r.rows) * r.dim);
    const both weights(random, static_cast<std::int64_t>(r.rows) * r.chosen, 1.0, 0.5);
    std::vector<std::int32_t> ids;
    for (std::int32_t t = 0; t < r.rows; ++t) {
      for (std::int32_t i = 0; i < r.chosen; ++i) ids.push_back((t + i) % r.experts);
    }
    both y = zeros(static_cast<std::int64_t>(r.rows) * r.dim);
    k_reference.experts(
        {x.wide.data(), list_of(w1), list_of(w3), list_of(w2), ids.data(), weights.wide.data(), y.wide.data(),
         r.rows, r.experts, r.chosen, r.dim, r.width, r.situ},
        {});
    const kernels::experts_params<float> p{
        x.narrow.data(), list_of(w1), list_of(w3), list_of(w2), ids.data(), weights.narrow.data(),
        y.narrow.data(), r.rows,      r.experts,   r.chosen,    r.dim,      r.width,
        r.situ};
    kernels::thread_pool pool(2);
    const guarded_context ctx(pool, k_cpu.experts_workspace_bytes(p, 2));
    k_cpu.experts(p, ctx.get());
    check_close(y, k_tolerance);
    ctx.check_guards();
  }
}
