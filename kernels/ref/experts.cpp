#include <algorithm>
#include <vector>

#include "kernels/ref/ops.hpp"

namespace weir::kernels::ref {

void router(const router_params<double>& p, const context&) {
  std::vector<double> score(static_cast<std::size_t>(p.experts));
  for (std::int64_t row = 0; row < p.rows; ++row) {
    for (std::int32_t e = 0; e < p.experts; ++e) {
      score[static_cast<std::size_t>(e)] = sigmoid(p.logits[row * p.experts + e]);
    }
    std::int32_t* ids = p.ids + row * p.per_token;
    double total = 0.0;
    for (std::int32_t i = 0; i < p.per_token; ++i) {
      std::int32_t best = -1;
      for (std::int32_t e = 0; e < p.experts; ++e) {
        if (std::find(ids, ids + i, e) != ids + i) continue;
        const double rank = score[static_cast<std::size_t>(e)] + static_cast<double>(p.bias[e]);
        if (best < 0 || rank > score[static_cast<std::size_t>(best)] + static_cast<double>(p.bias[best]))
          best = e;
      }
      ids[i] = best;
      p.weights[row * p.per_token + i] = score[static_cast<std::size_t>(best)];
      total += score[static_cast<std::size_t>(best)];
    }
    const double factor = p.renormalize ? p.scale / (total + 1e-20) : p.scale;
    for (std::int32_t i = 0; i < p.per_token; ++i) p.weights[row * p.per_token + i] *= factor;
  }
}

void experts(const experts_params<double>& p, const context& ctx) {
  std::vector<double> gate(static_cast<std::size_t>(p.width));
  std::vector<double> up(gate.size());
  std::vector<double> down(static_cast<std::size_t>(p.dim));
  std::fill_n(p.y, static_cast<std::int64_t>(p.rows) * p.dim, 0.0);
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const double* x = p.x + row * p.dim;
    for (std::int32_t i = 0; i < p.per_token; ++i) {
      const std::int32_t expert = p.ids[row * p.per_token + i];
      gemm({x, p.w1.each[expert], gate.data(), 1}, ctx);
      gemm({x, p.w3.each[expert], up.data(), 1}, ctx);
      if (p.situ.bounded()) {
        situ_mul({gate.data(), up.data(), p.width, p.situ}, ctx);
      } else {
        silu_mul({gate.data(), up.data(), p.width}, ctx);
      }
      gemm({gate.data(), p.w2.each[expert], down.data(), 1}, ctx);
      const double weight = p.weights[row * p.per_token + i];
      for (std::int32_t d = 0; d < p.dim; ++d)
        p.y[row * p.dim + d] += weight * down[static_cast<std::size_t>(d)];
    }
  }
}

}  // namespace weir::kernels::ref
