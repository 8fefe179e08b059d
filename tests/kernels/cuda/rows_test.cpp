// Row by row: norms, copies, gates, the router and the mix: CUDA's sources, emulated, against the reference.
#include <set>

#include "kernels/cuda/table.hpp"
#include "tests/kernels/support.hpp"

namespace {

using namespace weir;
using namespace weir::tests;
using kernels::dtype;

const auto k_reference = kernels::make_reference_table();
const auto k_cuda = kernels::make_cuda_table(kernels::activation_format::float32);
constexpr double k_row_tolerance = 2e-6;  // of the largest output: a handful of float32 roundings
constexpr double k_mix_tolerance = 4e-6;  // the scores are float32 sums
// By warp and by block, whole float4s and not, the widths of both published models.
constexpr std::int32_t k_dims[] = {1, 2, 7, 8, 31, 33, 64, 100, 128, 512, 513, 1026, 2304};

}  // namespace

TEST_CASE("cuda: rmsnorm", "[cuda]") {
  std::mt19937_64 random(11);
  for (const std::int32_t dim : k_dims) {
    for (const std::int32_t extra : {0, 4, 5}) {
      INFO("dim " << dim << " in rows of " << dim + extra);
      const std::int32_t stride = dim + extra;
      const both weight(random, dim, 1.0, 0.5);
      both x(random, 11L * stride, 0.3, 0.01);
      both y = x;
      k_reference.rmsnorm({x.wide.data(), weight.narrow.data(), y.wide.data(), 11, dim, stride, 1e-5}, {});
      k_cuda.rmsnorm({x.narrow.data(), weight.narrow.data(), y.narrow.data(), 11, dim, stride, 1e-5}, {});
      check_close(y, k_row_tolerance);
      for (std::int32_t i = dim; i < stride; ++i) {
        CHECK(y.narrow[static_cast<std::size_t>(i)] == x.narrow[static_cast<std::size_t>(i)]);
      }
      k_cuda.rmsnorm({x.narrow.data(), weight.narrow.data(), x.narrow.data(), 11, dim, stride, 1e-5}, {});
      CHECK(x.narrow == y.narrow);
    }
  }
}

TEST_CASE("cuda: l2norm, where the epsilon matters and where not", "[cuda]") {
  std::mt19937_64 random(12);
  for (const std::int32_t dim : k_dims) {
    for (const double spread : {1e-4, 2.0}) {
      both x(random, 9L * dim, 0.0, spread);
      k_reference.l2norm({x.wide.data(), 9, dim, 1e-6, 0.25}, {});
      k_cuda.l2norm({x.narrow.data(), 9, dim, 1e-6, 0.25}, {});
      check_close(x, k_row_tolerance);
    }
  }
}

TEST_CASE("cuda: gated_norm", "[cuda]") {
  std::mt19937_64 random(13);
  for (const std::int32_t dim : k_dims) {
    for (const double spread : {8.0, 400.0}) {
      both o(random, 17L * dim);
      const both gate(random, 17L * dim, 0.0, spread);
      const both weight(random, dim, 1.0, 0.5);
      k_reference.gated_norm({o.wide.data(), gate.wide.data(), weight.narrow.data(), 17, dim, 1e-5}, {});
      k_cuda.gated_norm({o.narrow.data(), gate.narrow.data(), weight.narrow.data(), 17, dim, 1e-5}, {});
      check_close(o, k_row_tolerance);
    }
  }
}

TEST_CASE("cuda: embed and gather are exact", "[cuda]") {
  std::mt19937_64 random(31);
  for (const std::int32_t dim : {1, 6, 64, 1028, 2305}) {
    const std::vector<std::int32_t> ids{8, 0, 3, 3, 7};
    for (const dtype type : {dtype::f32, dtype::bf16, dtype::f16}) {
      INFO("dim " << dim << ", dtype " << static_cast<int>(type));
      const stored_matrix table(random, type, 9, dim);
      both y = zeros(5L * dim);
      k_reference.embed({table.view, ids.data(), y.wide.data(), 5}, {});
      k_cuda.embed({table.view, ids.data(), y.narrow.data(), 5}, {});
      CHECK(std::equal(y.wide.begin(), y.wide.end(), y.narrow.begin()));
    }
    const both x(random, 9L * dim);
    both y = zeros(5L * dim);
    k_reference.gather({x.wide.data(), ids.data(), y.wide.data(), 5, dim}, {});
    k_cuda.gather({x.narrow.data(), ids.data(), y.narrow.data(), 5, dim}, {});
    CHECK(std::equal(y.wide.begin(), y.wide.end(), y.narrow.begin()));
  }
}

TEST_CASE("cuda: kda_gate, with a lower bound and without, also where it saturates", "[cuda]") {
  std::mt19937_64 random(15);
  for (const std::int32_t dim : {1, 7, 32, 33, 128, 512}) {
    for (const double lower_bound : {0.0, -5.0}) {
      for (const double spread : {3.0, 60.0, 300.0}) {
        INFO("dim " << dim << ", bound " << lower_bound << ", spread " << spread);
        const std::int32_t heads = 3;
        both g(random, 4L * heads * dim, 0.0, spread);
        both beta(random, 4L * heads, 0.0, 5.0);
        const both dt_bias(random, heads * dim, -1.0, 2.0);
        const both a_log(random, heads, 0.5, 1.0);
        k_reference.kda_gate({g.wide.data(), beta.wide.data(), dt_bias.narrow.data(), a_log.narrow.data(), 4,
                              heads, dim, lower_bound},
                             {});
        k_cuda.kda_gate({g.narrow.data(), beta.narrow.data(), dt_bias.narrow.data(), a_log.narrow.data(), 4,
                         heads, dim, lower_bound},
                        {});
        check_close(g, k_row_tolerance);
        check_close(beta, k_row_tolerance);
      }
    }
  }
}

TEST_CASE("cuda: the router picks as the reference does", "[cuda]") {
  struct row {
    std::int32_t experts, per_token;
    double spread;
  };
  // Few and many experts, more than a warp's worth of picks, all of them, logits where float32 sigmoids are
  // all one.
  const row rows[] = {{1, 1, 1.0},    {5, 5, 1.0},     {33, 8, 3.0},    {256, 8, 2.0},
                      {896, 16, 2.0}, {1030, 64, 2.0}, {300, 40, 60.0}, {4000, 33, 1.0}};
  std::mt19937_64 random(21);
  for (const row& r : rows) {
    for (const bool renormalize : {false, true}) {
      INFO(r.per_token << " of " << r.experts << " experts");
      const both logits(random, 3L * r.experts, 0.3, r.spread);
      const both bias(random, r.experts, 0.0, 0.2);
      std::vector<std::int32_t> expected(static_cast<std::size_t>(3 * r.per_token), -1), ids = expected;
      both weights = zeros(3L * r.per_token);
      k_reference.router({logits.wide.data(), bias.narrow.data(), expected.data(), weights.wide.data(), 3,
                          r.experts, r.per_token, renormalize, 2.446},
                         {});
      k_cuda.router({logits.narrow.data(), bias.narrow.data(), ids.data(), weights.narrow.data(), 3,
                     r.experts, r.per_token, renormalize, 2.446},
                    {});
      CHECK(ids == expected);
      for (std::size_t i = 0; i < weights.wide.size(); ++i) {
        CHECK(weights.narrow[i] == Approx(weights.wide[i]).epsilon(1e-6));
      }
    }
  }
}

TEST_CASE("cuda: equal ranks go to the lowest index", "[cuda]") {
  const std::int32_t experts = 200, per_token = 50;
  std::vector<float> logits(experts, 0.25F), weights(per_token);
  const std::vector<float> bias(experts, 0.0F);
  for (const std::size_t better : {150U, 40U, 41U, 199U}) logits[better] = 0.5F;
  std::vector<std::int32_t> ids(per_token);
  k_cuda.router({logits.data(), bias.data(), ids.data(), weights.data(), 1, experts, per_token, true, 1.0},
                {});
  std::vector<std::int32_t> expected{40, 41, 150, 199};
  for (std::int32_t e = 0; expected.size() < ids.size(); ++e) {
    if (e != 40 && e != 41) expected.push_back(e);
  }
  CHECK(ids == expected);
}

TEST_CASE("cuda: logits that are no numbers still give distinct experts", "[cuda]") {
  const std::int32_t experts = 70, per_token = 40;
  std::vector<float> logits(experts, std::numeric_limits<float>::quiet_NaN()), weights(per_token);
  const std::vector<float> bias(experts, 0.0F);
  logits[3] = 1.0F;
  std::vector<std::int32_t> ids(per_token, -1);
  k_cuda.router({logits.data(), bias.data(), ids.data(), weights.data(), 1, experts, per_token, true, 1.0},
                {});
  const std::set<std::int32_t> distinct(ids.begin(), ids.end());
  CHECK(distinct.size() == ids.size());
  CHECK(*distinct.begin() >= 0);
  CHECK(*distinct.rbegin() < experts);
}

TEST_CASE("cuda: residual_mix", "[cuda]") {
  std::mt19937_64 random(41);
  for (const std::int32_t dim : {1, 7, 16, 33, 1024, 2052, 4100, 8196}) {
    for (const std::int32_t blocks : {0, 1, 8, kernels::k_residual_sources_max - 1}) {
      if (dim > 33 && blocks > 8) continue;  // a barrier a source
      INFO("dim " << dim << ", " << blocks << " blocks");
      const std::int32_t rows = 2;
      const std::int64_t cells = static_cast<std::int64_t>(rows) * dim;
      const both stored(random, blocks * cells, 0.1, 2.0);
      const both current(random, cells);
      const both norm(random, dim, 1.0, 0.5);
      const both proj(random, dim, 0.0, 2.0 / std::sqrt(dim));
      both y = zeros(cells);
      k_reference.residual_mix({stored.wide.data(), current.wide.data(), norm.narrow.data(),
                                proj.narrow.data(), y.wide.data(), blocks, rows, dim, 1e-5},
                               {});
      k_cuda.residual_mix({stored.narrow.data(), current.narrow.data(), norm.narrow.data(),
                           proj.narrow.data(), y.narrow.data(), blocks, rows, dim, 1e-5},
                          {});
      check_close(y, k_mix_tolerance);
    }
  }
}
