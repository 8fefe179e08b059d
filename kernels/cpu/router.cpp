#include <cmath>

#include "kernels/cpu/ops.hpp"

namespace weir::kernels::cpu {

// Few and small rows: scalar, with the scores in double so that near ties fall as in the reference.
void router(const router_params<float>& p, const context&) {
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const float* logits = p.logits + row * p.experts;
    std::int32_t* ids = p.ids + row * p.per_token;
    float* weights = p.weights + row * p.per_token;
    const auto score = [logits](std::int32_t e) {
      return 1.0 / (1.0 + std::exp(-static_cast<double>(logits[e])));
    };
    double best_rank[k_experts_per_token_max];
    std::int32_t chosen = 0;
    for (std::int32_t e = 0; e < p.experts; ++e) {
      const double rank = score(e) + static_cast<double>(p.bias[e]);
      if (chosen == p.per_token && !(rank > best_rank[chosen - 1])) continue;
      std::int32_t at = chosen < p.per_token ? chosen++ : chosen - 1;
      for (; at > 0 && rank > best_rank[at - 1]; --at) {
        best_rank[at] = best_rank[at - 1];
        ids[at] = ids[at - 1];
      }
      best_rank[at] = rank;
      ids[at] = e;
    }
    double total = 0.0;
    for (std::int32_t i = 0; i < p.per_token; ++i) total += score(ids[i]);
    const double factor = p.renormalize ? p.scale / (total + 1e-20) : p.scale;
    for (std::int32_t i = 0; i < p.per_token; ++i) weights[i] = static_cast<float>(score(ids[i]) * factor);
  }
}

}  // namespace weir::kernels::cpu
