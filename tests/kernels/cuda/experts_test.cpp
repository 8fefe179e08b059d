// Experts: CUDA's sources, emulated, against the reference.
#include "kernels/cuda/experts_config.hpp"
#include "tests/kernels/cuda/products.hpp"

namespace {

using namespace weir;
using namespace weir::tests;
using kernels::activation_format;
using kernels::dtype;

const auto k_reference = kernels::make_reference_table();
const auto k_exact = kernels::make_cuda_table(activation_format::float32);
const auto k_narrow = kernels::make_cuda_table(activation_format::narrow);
constexpr double k_tolerance = 4e-6;  // of the largest output: sums of a few hundred terms, twice
// The unit's output is rounded once more on its way; see the CPU's test of the same.
constexpr double k_narrow_tolerance = 3e-2;

struct sizes {
  std::int32_t rows, experts, chosen, dim, width;
  kernels::situ_bounds situ = {};
};

struct layer {
  std::vector<stored_matrix> owned;
  std::vector<kernels::matrix> w1, w3, w2;

  layer(std::mt19937_64& random, const sizes& s, dtype in, dtype out) {
    for (std::int32_t e = 0; e < s.experts; ++e) {
      w1.push_back(owned.emplace_back(random, in, s.width, s.dim).view);
      w3.push_back(owned.emplace_back(random, in, s.width, s.dim).view);
      w2.push_back(owned.emplace_back(random, out, s.dim, s.width).view);
    }
  }
};

void run(const kernels::kernel_table<float>& table, const sizes& s, const layer& l, const float* x,
         const std::vector<std::int32_t>& ids, const both& weights, float* y) {
  const kernels::experts_params<float> p{
      x,         list_of(l.w1), list_of(l.w3), list_of(l.w2), ids.data(), weights.narrow.data(), y, s.rows,
      s.experts, s.chosen,      s.dim,         s.width,       s.situ};
  kernels::thread_pool pool(1);
  const guarded_context ctx(pool, table.experts_workspace_bytes(p, 1));
  table.experts(p, ctx.get());
  ctx.check_guards();
}

// Uneven: some experts have many of the picks, some none.
std::vector<std::int32_t> pick(std::mt19937_64& random, const sizes& s) {
  std::vector<std::int32_t> ids;
  for (std::int32_t t = 0; t < s.rows; ++t) {
    const auto first = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(s.experts));
    for (std::int32_t i = 0; i < s.chosen; ++i) ids.push_back((first / 2 + i) % s.experts);
  }
  return ids;
}

void check_experts(std::mt19937_64& random, const sizes& s, dtype in, dtype out) {
  INFO("dtypes " << static_cast<int>(in) << " " << static_cast<int>(out) << ", " << s.rows << " rows, "
                 << s.experts << " experts, " << s.chosen << " chosen, " << s.dim << " x " << s.width);
  const layer l(random, s, in, out);
  const both x(random, static_cast<std::int64_t>(s.rows) * s.dim, 0.0, 0.3);
  const both weights(random, static_cast<std::int64_t>(s.rows) * s.chosen, 1.0, 0.5);
  const auto ids = pick(random, s);
  both y = zeros(static_cast<std::int64_t>(s.rows) * s.dim);
  k_reference.experts(
      {x.wide.data(), list_of(l.w1), list_of(l.w3), list_of(l.w2), ids.data(), weights.wide.data(),
       y.wide.data(), s.rows, s.experts, s.chosen, s.dim, s.width, s.situ},
      {});
  for (const auto* table : {&k_exact, &k_narrow}) {
    std::fill(y.narrow.begin(), y.narrow.end(), -7.0F);
    run(*table, s, l, x.narrow.data(), ids, weights, y.narrow.data());
    check_close(y, table == &k_exact ? k_tolerance : k_narrow_tolerance);
  }
}

}  // namespace

TEST_CASE("cuda: experts of few tokens", "[cuda]") {
  const dtype type = GENERATE(dtype::bf16, dtype::mxfp4);
  std::mt19937_64 random(71);
  check_experts(random, {1, 1, 1, 32, 32}, type, type);
  check_experts(random, {1, 8, 2, 160, 96}, type, type);
  check_experts(random, {8, 3, 3, 64, 32, {4.0, 25.0}}, type, type);
  check_experts(random, {9, 5, 2, 96, 160}, type, type);
  check_experts(random, {40, 11, 3, 64, 64, {1.5, 2.0}}, type, type);
}

TEST_CASE("cuda: experts of many tokens", "[cuda]") {
  const dtype type = GENERATE(dtype::bf16, dtype::mxfp4);
  std::mt19937_64 random(72);
  check_experts(random, {90, 3, 2, 288, 160, {4.0, 25.0}}, type, type);
  check_experts(random, {150, 2, 1, 32, 32}, type, type);
}

TEST_CASE("cuda: experts of other formats and shapes", "[cuda]") {
  std::mt19937_64 random(73);
  for (const dtype type : {dtype::f32, dtype::bf16, dtype::f16}) {
    check_experts(random, {1, 1, 1, 1, 1}, type, type);
    check_experts(random, {3, 8, 2, 33, 17}, type, type);
    check_experts(random, {20, 5, 1, 40, 12}, type, type);  // of bf16, one of the two takes tensor cores
  }
  check_experts(random, {5, 4, 2, 128, 64}, dtype::int8, dtype::int8);
  check_experts(random, {5, 4, 2, 64, 128}, dtype::mxfp4, dtype::bf16);
  check_experts(random, {70, 2, 2, 64, 128}, dtype::bf16, dtype::mxfp4);
  check_experts(random, {4, 4, 2, 64, 128}, dtype::bf16, dtype::f32);
}

TEST_CASE("cuda: experts over several passes", "[cuda]") {
  std::mt19937_64 random(74);
  const auto rows = static_cast<std::int32_t>(kernels::cuda::k_pass_rows) + 5;
  check_experts(random, {rows, 1, 1, 8, 8}, dtype::bf16, dtype::bf16);
}

TEST_CASE("cuda: experts of activations that are not aligned", "[cuda]") {
  std::mt19937_64 random(75);
  const sizes s{70, 2, 2, 64, 64};
  const layer l(random, s, dtype::bf16, dtype::bf16);
  const both x(random, s.rows * s.dim, 0.0, 0.3);
  const both weights(random, s.rows * s.chosen, 1.0, 0.5);
  const auto ids = pick(random, s);
  std::vector<float> shifted(1, 0.0F);
  shifted.insert(shifted.end(), x.narrow.begin(), x.narrow.end());
  both y = zeros(static_cast<std::int64_t>(s.rows) * s.dim);
  k_reference.experts({x.wide.data(), list_of(l.w1), list_of(l.w3), list_of(l.w2), ids.data(),
                       weights.wide.data(), y.wide.data(), s.rows, s.experts, s.chosen, s.dim, s.width},
                      {});
  run(k_exact, s, l, shifted.data() + 1, ids, weights, y.narrow.data());
  check_close(y, k_tolerance);
}

TEST_CASE("cuda: a token's experts do not depend on the other tokens among few", "[cuda]") {
  const dtype type = GENERATE(dtype::bf16, dtype::mxfp4);
  std::mt19937_64 random(76);
  const sizes s{12, 6, 3, 320, 64};
  const layer l(random, s, type, type);
  const both x(random, s.rows * s.dim, 0.0, 0.3);
  const both weights(random, s.rows * s.chosen, 1.0, 0.5);
  const auto ids = pick(random, s);
  for (const auto* table : {&k_exact, &k_narrow}) {
    std::vector<float> together(static_cast<std::size_t>(s.rows * s.dim));
    run(*table, s, l, x.narrow.data(), ids, weights, together.data());
    for (const std::int32_t row : {0, 5, 11}) {
      sizes alone = s;
      alone.rows = 1;
      both weight(1);
      weight.narrow.assign(weights.narrow.begin() + row * s.chosen,
                           weights.narrow.begin() + (row + 1) * s.chosen);
      const std::vector<std::int32_t> id(ids.begin() + row * s.chosen, ids.begin() + (row + 1) * s.chosen);
      std::vector<float> y(static_cast<std::size_t>(s.dim));
      run(*table, alone, l, x.narrow.data() + row * s.dim, id, weight, y.data());
      CHECK(std::equal(y.begin(), y.end(), together.begin() + row * s.dim));
    }
  }
}
