// Matrix-shaped operations of the CPU backend against the scalar reference.
#include "tests/kernels/support.hpp"

namespace {

using namespace weir;
using namespace weir::tests;
using kernels::dtype;

const auto k_reference = kernels::make_reference_table();
const auto k_cpu = kernels::make_cpu_table();
constexpr dtype k_dtypes[] = {dtype::f32, dtype::bf16, dtype::f16};
constexpr double k_tolerance = 4e-6;  // of the largest output: float32 sums of up to a few hundred terms

}  // namespace

TEST_CASE("gemm", "[kernels]") {
  WEIR_FOR_EACH_INSTRUCTION_SET();
  std::mt19937_64 random(1);
  for (const int threads : {1, 3}) {
    kernels::thread_pool pool(threads);
    for (const dtype type : k_dtypes) {
      for (const std::int32_t rows : {1, 2, 3, 4, 5, 8, 13}) {
        for (const std::int32_t cols : {1, 3, 4, 6, 33}) {
          for (const std::int32_t depth : {1, 2, 7, 8, 15, 16, 17, 31, 64, 100, 259}) {
            INFO("dtype " << static_cast<int>(type) << " [" << rows << "," << depth << "] x [" << cols << ","
                          << depth << "]");
            const both a(random, static_cast<std::int64_t>(rows) * depth);
            const stored_matrix b(random, type, cols, depth);
            both c = zeros(static_cast<std::int64_t>(rows) * cols);
            k_reference.gemm({a.wide.data(), b.view, c.wide.data(), rows}, {});
            guarded_gemm(k_cpu, {a.narrow.data(), b.view, c.narrow.data(), rows}, pool);
            check_close(c, k_tolerance);
          }
        }
      }
    }
  }
}

TEST_CASE("gemm large enough to be split over threads", "[kernels]") {
  WEIR_FOR_EACH_INSTRUCTION_SET();
  std::mt19937_64 random(2);
  kernels::thread_pool pool(4);
  const both a(random, 33 * 515);
  const stored_matrix b(random, dtype::bf16, 1027, 515);
  both c = zeros(33 * 1027);
  k_reference.gemm({a.wide.data(), b.view, c.wide.data(), 33}, {});
  guarded_gemm(k_cpu, {a.narrow.data(), b.view, c.narrow.data(), 33}, pool);
  check_close(c, k_tolerance);
}

TEST_CASE("embed", "[kernels]") {
  WEIR_FOR_EACH_INSTRUCTION_SET();
  std::mt19937_64 random(3);
  for (const dtype type : k_dtypes) {
    for (const std::int32_t cols : {1, 5, 16, 33}) {
      const stored_matrix table(random, type, 11, cols);
      const std::int32_t ids[] = {10, 0, 3, 3, 7};
      both y = zeros(5 * cols);
      k_reference.embed({table.view, ids, y.wide.data(), 5}, {});
      k_cpu.embed({table.view, ids, y.narrow.data(), 5}, {});
      check_close(y, 0.0);
    }
  }
}

TEST_CASE("router", "[kernels]") {
  WEIR_FOR_EACH_INSTRUCTION_SET();
  std::mt19937_64 random(4);
  for (const std::int32_t experts : {1, 2, 8, 33, 256}) {
    for (const std::int32_t chosen : {1, 2, 8, 16}) {
      if (chosen > experts) continue;
      for (const bool renormalize : {true, false}) {
        INFO(experts << " experts, " << chosen << " chosen, renormalize " << renormalize);
        const std::int32_t rows = 9;
        const both logits(random, static_cast<std::int64_t>(rows) * experts, 0.0, 3.0);
        const both bias(random, experts, 0.0, 0.2);
        both weights = zeros(static_cast<std::int64_t>(rows) * chosen);
        std::vector<std::int32_t> ours(static_cast<std::size_t>(rows * chosen)), theirs = ours;
        k_reference.router({logits.wide.data(), bias.narrow.data(), theirs.data(), weights.wide.data(), rows,
                            experts, chosen, renormalize, 2.446},
                           {});
        k_cpu.router({logits.narrow.data(), bias.narrow.data(), ours.data(), weights.narrow.data(), rows,
                      experts, chosen, renormalize, 2.446},
                     {});
        CHECK(ours == theirs);
        for (std::size_t i = 0; i < weights.wide.size(); ++i) {
          CHECK(weights.wide[i] > 0.0);
          CHECK(static_cast<double>(weights.narrow[i]) == Approx(weights.wide[i]).epsilon(1e-6));
        }
      }
    }
  }
}

TEST_CASE("router takes the lowest index on a tie, and survives NaN", "[kernels]") {
  WEIR_FOR_EACH_INSTRUCTION_SET();
  const float bias[6] = {};
  const double wide[12] = {1, 2, 2, 0, 2, 1, NAN, NAN, NAN, NAN, NAN, NAN};
  float narrow[12];
  std::copy(std::begin(wide), std::end(wide), narrow);
  std::int32_t ids[6];
  double wide_weights[6];
  float narrow_weights[6];
  k_reference.router({wide, bias, ids, wide_weights, 2, 6, 3, true, 1.0}, {});
  CHECK(std::vector<std::int32_t>(ids, ids + 3) == std::vector<std::int32_t>{1, 2, 4});
  CHECK(std::all_of(ids, ids + 6, [](std::int32_t id) { return id >= 0 && id < 6; }));
  k_cpu.router({narrow, bias, ids, narrow_weights, 2, 6, 3, true, 1.0}, {});
  CHECK(std::vector<std::int32_t>(ids, ids + 3) == std::vector<std::int32_t>{1, 2, 4});
  CHECK(std::all_of(ids, ids + 6, [](std::int32_t id) { return id >= 0 && id < 6; }));
}

TEST_CASE("experts", "[kernels]") {
  WEIR_FOR_EACH_INSTRUCTION_SET();
  std::mt19937_64 random(5);
  struct row {
    std::int32_t rows, experts, chosen, dim, width;
  };
  const row rows[] = {
      {1, 1, 1, 1, 1}, {1, 8, 2, 33, 17}, {7, 4, 4, 16, 31}, {20, 5, 1, 40, 8}, {65, 9, 3, 64, 24}};
  for (const row& r : rows) {
    for (const dtype type : k_dtypes) {
      INFO(r.rows << " rows, " << r.experts << " experts, " << r.chosen << " chosen");
      std::vector<stored_matrix> owned;
      std::vector<kernels::matrix> w1, w3, w2;
      for (std::int32_t e = 0; e < r.experts; ++e) {
        w1.push_back(owned.emplace_back(random, type, r.width, r.dim).view);
        w3.push_back(owned.emplace_back(random, type, r.width, r.dim).view);
        w2.push_back(owned.emplace_back(random, type, r.dim, r.width).view);
      }
      const both x(random, static_cast<std::int64_t>(r.rows) * r.dim);
      const both weights(random, static_cast<std::int64_t>(r.rows) * r.chosen, 1.0, 0.5);
      std::vector<std::int32_t> ids;
      for (std::int32_t t = 0; t < r.rows; ++t) {
        const auto first = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(r.experts));
        for (std::int32_t i = 0; i < r.chosen; ++i) ids.push_back((first + i) % r.experts);
      }
      both y = zeros(static_cast<std::int64_t>(r.rows) * r.dim);
      k_reference.experts({x.wide.data(), list_of(w1), list_of(w3), list_of(w2), ids.data(),
                           weights.wide.data(), y.wide.data(), r.rows, r.experts, r.chosen, r.dim, r.width},
                          {});
      const kernels::experts_params<float> p{
          x.narrow.data(), list_of(w1), list_of(w3), list_of(w2), ids.data(), weights.narrow.data(),
          y.narrow.data(), r.rows,      r.experts,   r.chosen,    r.dim,      r.width};
      kernels::thread_pool pool(2);
      const guarded_context ctx(pool, k_cpu.experts_workspace_bytes(p, 2));
      k_cpu.experts(p, ctx.get());
      check_close(y, k_tolerance);
      ctx.check_guards();
    }
  }
}
