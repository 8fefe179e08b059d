// The mix over residual blocks: the CPU backend against the scalar reference, and both against a case by
// hand.
#include "tests/kernels/support.hpp"

namespace {

using namespace weir;
using namespace weir::tests;

const auto k_reference = kernels::make_reference_table();
const auto k_cpu = kernels::make_cpu_table();
constexpr double k_tolerance = 4e-6;  // of the largest output: the scores are float32 sums

}  // namespace

TEST_CASE("residual_mix", "[kernels]") {
  WEIR_FOR_EACH_INSTRUCTION_SET();
  std::mt19937_64 random(41);
  kernels::thread_pool pool(3);
  for (const std::int32_t dim : {1, 2, 7, 16, 17, 33, 100, 1024}) {
    for (const std::int32_t blocks : {1, 2, 8, kernels::k_residual_sources_max - 1}) {
      for (const std::int32_t rows : {1, 2, 9}) {
        INFO("dim " << dim << ", " << blocks << " blocks, " << rows << " rows");
        const std::int64_t cells = static_cast<std::int64_t>(rows) * dim;
        const both stored(random, blocks * cells, 0.1, 2.0);
        const both current(random, cells);
        const both norm(random, dim, 1.0, 0.5);
        const both proj(random, dim, 0.0, 2.0 / std::sqrt(dim));
        both y = zeros(cells);
        k_reference.residual_mix({stored.wide.data(), current.wide.data(), norm.narrow.data(),
                                  proj.narrow.data(), y.wide.data(), blocks, rows, dim, 1e-5},
                                 {});
        k_cpu.residual_mix({stored.narrow.data(), current.narrow.data(), norm.narrow.data(),
                            proj.narrow.data(), y.narrow.data(), blocks, rows, dim, 1e-5},
                           {&pool, nullptr, 0});
        check_close(y, k_tolerance);
      }
    }
  }
}

TEST_CASE("residual_mix weighs normalised sources and sums them as they are", "[kernels]") {
  // rms(block) = rms(current) = 5, so the scores are 3/5 * 2 * 1 and 4/5 * 2 * 1 with norm (2, 1), proj (1,
  // 0).
  const double stored[] = {3.0, std::sqrt(41.0)};
  const double current[] = {4.0, -std::sqrt(34.0)};
  const float norm[] = {2.0F, 1.0F};
  const float proj[] = {1.0F, 0.0F};
  double y[2];
  k_reference.residual_mix({stored, current, norm, proj, y, 1, 1, 2, 0.0}, {});
  const double weight = 1.0 / (1.0 + std::exp(0.4));
  CHECK(y[0] == Approx(weight * 3.0 + (1.0 - weight) * 4.0));
  CHECK(y[1] == Approx(weight * std::sqrt(41.0) - (1.0 - weight) * std::sqrt(34.0)));
}
