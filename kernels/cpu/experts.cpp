#include <algorithm>
#include <cmath>

#include "kernels/cpu/ops.hpp"

namespace weir::kernels::cpu {

namespace {

constexpr std::size_t k_align_bytes = 64;

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + k_align_bytes - 1) / k_align_bytes * k_align_bytes;
}

// Rows sorted by expert (N = T * k), carved from the workspace.
struct grouped_rows {
  std::int32_t* begin;  // [E + 1] first sorted row of each expert
  std::int32_t* pick;   // [N] the row's place in ids and weights
  float* x;             // [N, D]
  float* gate;          // [N, F]
  float* up;            // [N, F]
  float* down;          // [N, D]
};

std::size_t layout(const experts_params<float>& p, std::byte* base, grouped_rows* rows) {
  const auto picks = static_cast<std::size_t>(p.rows) * static_cast<std::size_t>(p.per_token);
  const auto dim = static_cast<std::size_t>(p.dim);
  const auto width = static_cast<std::size_t>(p.width);
  std::size_t used = 0;
  const auto carve = [base, &used](std::size_t bytes) {
    std::byte* place = base == nullptr ? nullptr : base + used;
    used += aligned(bytes);
    return place;
  };
  std::byte* begin = carve((static_cast<std::size_t>(p.experts) + 1) * sizeof(std::int32_t));
  std::byte* pick = carve(picks * sizeof(std::int32_t));
  std::byte* x = carve(picks * dim * sizeof(float));
  std::byte* gate = carve(picks * width * sizeof(float));
  std::byte* up = carve(picks * width * sizeof(float));
  std::byte* down = carve(picks * dim * sizeof(float));
  if (rows != nullptr) {
    *rows = {reinterpret_cast<std::int32_t*>(begin),
             reinterpret_cast<std::int32_t*>(pick),
             reinterpret_cast<float*>(x),
             reinterpret_cast<float*>(gate),
             reinterpret_cast<float*>(up),
             reinterpret_cast<float*>(down)};
  }
  return used;
}

// Counting sort by expert: stable, so a token's picks keep their order within an expert.
void group(const experts_params<float>& p, const grouped_rows& rows) {
  const std::int32_t picks = p.rows * p.per_token;
  std::fill_n(rows.begin, p.experts + 1, 0);
  for (std::int32_t i = 0; i < picks; ++i) ++rows.begin[p.ids[i] + 1];
  for (std::int32_t e = 0; e < p.experts; ++e) rows.begin[e + 1] += rows.begin[e];
  for (std::int32_t i = 0; i < picks; ++i) rows.pick[rows.begin[p.ids[i]]++] = i;
  for (std::int32_t e = p.experts; e > 0; --e) rows.begin[e] = rows.begin[e - 1];
  rows.begin[0] = 0;
  for (std::int64_t i = 0; i < picks; ++i) {
    std::copy_n(p.x + static_cast<std::int64_t>(rows.pick[i] / p.per_token) * p.dim, p.dim,
                rows.x + i * p.dim);
  }
}

}  // namespace

std::size_t experts_workspace_bytes(const experts_params<float>& p, int) {
  return layout(p, nullptr, nullptr);
}

void experts(const experts_params<float>& p, const context& ctx) {
  grouped_rows rows{};
  layout(p, ctx.workspace, &rows);
  group(p, rows);
  const std::int64_t width = p.width;
  const std::int64_t dim = p.dim;
  for (std::int32_t e = 0; e < p.experts; ++e) {
    const std::int64_t first = rows.begin[e];
    const std::int32_t count = rows.begin[e + 1] - rows.begin[e];
    if (count == 0) continue;
    gemm({rows.x + first * dim, p.w1[e], rows.gate + first * width, count}, ctx);
    gemm({rows.x + first * dim, p.w3[e], rows.up + first * width, count}, ctx);
    if (p.situ.bounded()) {
      situ_mul({rows.gate + first * width, rows.up + first * width, count * width, p.situ}, ctx);
    } else {
      silu_mul({rows.gate + first * width, rows.up + first * width, count * width}, ctx);
    }
    gemm({rows.gate + first * width, p.w2[e], rows.down + first * dim, count}, ctx);
  }
  const std::int32_t picks = p.rows * p.per_token;
  std::fill_n(p.y, p.rows * dim, 0.0F);
  for (std::int64_t i = 0; i < picks; ++i) {
    const float weight = p.weights[rows.pick[i]];
    float* y = p.y + static_cast<std::int64_t>(rows.pick[i] / p.per_token) * dim;
    const float* down = rows.down + i * dim;
    for (std::int64_t d = 0; d < dim; ++d) y[d] += weight * down[d];
  }
}

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
