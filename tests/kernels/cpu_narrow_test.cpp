// Products over every stored format with both activation formats: against the reference, which is given the
// rounded activations where they are rounded, and row by row against themselves.
#include "tests/kernels/support.hpp"

namespace {

using namespace weir;
using namespace weir::tests;
using kernels::activation_format;
using kernels::dtype;

const auto k_reference = kernels::make_reference_table();
const auto k_exact = kernels::make_cpu_table(activation_format::float32);
const auto k_narrow = kernels::make_cpu_table(activation_format::narrow);
constexpr dtype k_dtypes[] = {dtype::f32, dtype::bf16, dtype::f16, dtype::int8, dtype::mxfp4};
constexpr double k_tolerance = 4e-6;  // of the largest output, as for other products

std::int32_t group_of(dtype type) {
  return type == dtype::int8 ? kernels::k_int8_group : type == dtype::mxfp4 ? kernels::k_mxfp4_group : 1;
}

// What a group of activations is taken for beside weights of `type`, by the definition of the format.
void round_group(dtype type, double* x, std::int32_t count) {
  if (type == dtype::f32 || type == dtype::f16) return;
  double peak = 0.0;
  for (std::int32_t i = 0; i < count; ++i) peak = std::max(peak, std::fabs(x[i]));
  for (std::int32_t i = 0; i < count; ++i) {
    if (type == dtype::bf16) {
      x[i] = kernels::bf16_to_float(kernels::float_to_bf16(static_cast<float>(x[i])));
    } else {
      // In float, as a code may fall to either side of a half.
      const float inverse = 127.0F / static_cast<float>(peak);
      const double scale = static_cast<double>(static_cast<float>(peak) / 127.0F);
      x[i] = peak == 0.0 ? 0.0 : scale * std::nearbyint(static_cast<float>(x[i]) * inverse);
    }
  }
}

both rounded(dtype type, const both& x) {
  both out = x;
  const std::int32_t group = group_of(type);
  for (std::size_t i = 0; i < x.wide.size(); i += static_cast<std::size_t>(group)) {
    round_group(type, out.wide.data() + i, group);
  }
  return out;
}

// Widths that leave a part of a vector, of a group of columns, of a panel and of a block of groups.
std::vector<std::int32_t> depths_of(dtype type) {
  if (type == dtype::int8) return {64, 128, 320, 1088};
  if (type == dtype::mxfp4) return {32, 96, 128, 480, 512, 1120};
  return {1, 15, 33, 64, 259, 1056};
}

std::vector<float> multiply(const kernels::kernel_table<float>& table, const float* a, const stored_matrix& b,
                            std::int32_t rows, kernels::thread_pool& pool) {
  std::vector<float> c(static_cast<std::size_t>(rows) * static_cast<std::size_t>(b.view.rows));
  guarded_gemm(table, {a, b.view, c.data(), rows}, pool);
  return c;
}

}  // namespace

TEST_CASE("products of rounded activations are those of the reference", "[kernels]") {
  WEIR_FOR_EACH_INSTRUCTION_SET();
  const dtype type = GENERATE(from_range(std::begin(k_dtypes), std::end(k_dtypes)));
  std::mt19937_64 random(41);
  kernels::thread_pool pool(3);
  for (const std::int32_t depth : depths_of(type)) {
    for (const std::int32_t cols : {1, 3, 6, 15, 34}) {
      const stored_matrix b(random, type, cols, depth);
      for (const std::int32_t rows : {1, 2, 3, 7, 9, 20}) {
        INFO("dtype " << static_cast<int>(type) << " [" << rows << "," << depth << "] x [" << cols << ","
                      << depth << "]");
        both a(random, static_cast<std::int64_t>(rows) * depth, 0.1);
        const both near = rounded(type, a);
        both c = zeros(static_cast<std::int64_t>(rows) * cols);
        k_reference.gemm({near.wide.data(), b.view, c.wide.data(), rows}, {});
        c.narrow = multiply(k_narrow, a.narrow.data(), b, rows, pool);
        check_close(c, k_tolerance);
        k_reference.gemm({a.wide.data(), b.view, c.wide.data(), rows}, {});
        c.narrow = multiply(k_exact, a.narrow.data(), b, rows, pool);
        check_close(c, k_tolerance);
      }
    }
  }
}

TEST_CASE("a row's products do not depend on the other rows", "[kernels]") {
  WEIR_FOR_EACH_INSTRUCTION_SET();
  const dtype type = GENERATE(from_range(std::begin(k_dtypes), std::end(k_dtypes)));
  std::mt19937_64 random(42);
  kernels::thread_pool pool(2);
  const std::int32_t depth = 1120 / group_of(type) * group_of(type), cols = 39, most = 20;
  const both a(random, most * depth);
  const stored_matrix b(random, type, cols, depth);
  for (const auto* table : {&k_exact, &k_narrow}) {
    std::vector<float> alone;
    for (std::int32_t row = 0; row < most; ++row) {
      const auto c = multiply(*table, a.narrow.data() + row * depth, b, 1, pool);
      alone.insert(alone.end(), c.begin(), c.end());
    }
    for (std::int32_t rows = 2; rows <= most; ++rows) {
      INFO("dtype " << static_cast<int>(type) << ", " << rows << " rows");
      const auto c = multiply(*table, a.narrow.data(), b, rows, pool);
      CHECK(std::equal(c.begin(), c.end(), alone.begin()));
    }
  }
}

TEST_CASE("activations that are no numbers stay in their row", "[kernels]") {
  WEIR_FOR_EACH_INSTRUCTION_SET();
  const dtype type = GENERATE(from_range(std::begin(k_dtypes), std::end(k_dtypes)));
  std::mt19937_64 random(43);
  kernels::thread_pool pool(2);
  const std::int32_t depth = 128, cols = 20, rows = 6;
  both a(random, rows * depth);
  const stored_matrix b(random, type, cols, depth);
  for (const auto* table : {&k_exact, &k_narrow}) {
    const auto clean = multiply(*table, a.narrow.data(), b, rows, pool);
    for (const float odd : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                            1e-42F, std::numeric_limits<float>::max()}) {
      INFO("dtype " << static_cast<int>(type) << ", " << odd);
      auto x = a.narrow;
      for (std::int32_t k = 0; k < 3; ++k) x[static_cast<std::size_t>(2 * depth + 40 * k)] = odd;
      const auto c = multiply(*table, x.data(), b, rows, pool);
      for (std::int32_t row = 0; row < rows; ++row) {
        for (std::int32_t n = 0; n < cols; ++n) {
          const auto i = static_cast<std::size_t>(row * cols + n);
          if (row != 2) CHECK(c[i] == clean[i]);
          if (row == 2 && std::isnan(odd)) CHECK(std::isnan(c[i]));
          if (row == 2 && odd < 1.0F) CHECK(std::isfinite(c[i]));
        }
      }
    }
  }
}

TEST_CASE("rows of nothing give nothing", "[kernels]") {
  WEIR_FOR_EACH_INSTRUCTION_SET();
  std::mt19937_64 random(44);
  kernels::thread_pool pool(2);
  const std::vector<float> a(4 * 128, 0.0F);
  for (const dtype type : k_dtypes) {
    const stored_matrix b(random, type, 20, 128);
    for (const auto* table : {&k_exact, &k_narrow}) {
      const auto c = multiply(*table, a.data(), b, 4, pool);
      CHECK(std::all_of(c.begin(), c.end(), [](float value) { return value == 0.0F; }));
    }
  }
}

// The unit's output is rounded once more on its way, by what the backend computed: so the tolerance is that
// of the format, not of the arithmetic. One rounding is 2^-9 of a value (bf16), 1/254 of a group's largest (8
// bits); the sum of a hundred such, in random directions, is a few thousandths of the largest output.
TEST_CASE("experts with rounded activations", "[kernels]") {
  WEIR_FOR_EACH_INSTRUCTION_SET();
  struct row {
    std::int32_t rows, experts, chosen;
    double tolerance;
  };
  const row rows[] = {{1, 8, 2, 3e-2}, {7, 4, 4, 3e-2}, {33, 9, 3, 3e-2}};
  const dtype type = GENERATE(from_range(std::begin(k_dtypes), std::end(k_dtypes)));
  std::mt19937_64 random(45);
  const std::int32_t dim = 192, width = 128;
  for (const row& r : rows) {
    INFO("dtype " << static_cast<int>(type) << ", " << r.rows << " rows, " << r.experts << " experts");
    std::vector<stored_matrix> owned;
    std::vector<kernels::matrix> w1, w3, w2;
    for (std::int32_t e = 0; e < r.experts; ++e) {
      w1.push_back(owned.emplace_back(random, type, width, dim).view);
      w3.push_back(owned.emplace_back(random, type, width, dim).view);
      w2.push_back(owned.emplace_back(random, type, dim, width).view);
    }
    const both x(random, static_cast<std::int64_t>(r.rows) * dim, 0.0, 0.3);
    const both weights(random, static_cast<std::int64_t>(r.rows) * r.chosen, 1.0, 0.5);
    std::vector<std::int32_t> ids;
    for (std::int32_t t = 0; t < r.rows; ++t) {
      for (std::int32_t i = 0; i < r.chosen; ++i) ids.push_back((t + i) % r.experts);
    }
    both y = zeros(static_cast<std::int64_t>(r.rows) * dim);
    k_reference.experts({x.wide.data(), list_of(w1), list_of(w3), list_of(w2), ids.data(),
                         weights.wide.data(), y.wide.data(), r.rows, r.experts, r.chosen, dim, width},
                        {});
    for (const auto* table : {&k_exact, &k_narrow}) {
      const kernels::experts_params<float> p{
          x.narrow.data(), list_of(w1), list_of(w3), list_of(w2), ids.data(), weights.narrow.data(),
          y.narrow.data(), r.rows,      r.experts,   r.chosen,    dim,        width};
      kernels::thread_pool pool(2);
      const guarded_context ctx(pool, table->experts_workspace_bytes(p, 2));
      table->experts(p, ctx.get());
      check_close(y, table == &k_exact ? k_tolerance : r.tolerance);
      ctx.check_guards();
    }
  }
}
