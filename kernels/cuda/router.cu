#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops.hpp"
#include "kernels/cuda/router_config.hpp"

namespace weir::kernels::cuda {

namespace {

// Scores in double, so that near ties and saturated sigmoids fall as in the reference.
__device__ inline double score_of(float logit) {
  return 1.0 / (1.0 + exp(-static_cast<double>(logit)));
}

// Ordered as the ranks are, none of them zero.
__device__ inline std::uint64_t key_of(double rank) {
  constexpr std::uint64_t k_sign = std::uint64_t{1} << 63;
  const auto bits = static_cast<std::uint64_t>(__double_as_longlong(rank));
  const std::uint64_t key = (bits & k_sign) != 0 ? ~bits : bits | k_sign;
  return key == 0 ? 1 : key;
}

struct candidate {
  std::uint64_t key;
  std::uint32_t expert;
};

// The best of a lane's experts: lane, lane + 32, ...; the first of equals.
__device__ inline candidate best_of_lane(const std::uint64_t* keys, std::int32_t experts) {
  candidate best{0, 0xFFFFFFFFU};
#pragma unroll 4
  for (std::int32_t e = lane_index(); e < experts; e += k_warp) {
    const std::uint64_t key = keys[e];
    if (key > best.key) best = {key, static_cast<std::uint32_t>(e)};
  }
  return best;
}

// The best of the warp, the lowest index of equals: upper half of the key, lower half, index.
__device__ inline std::uint32_t best_of_warp(const candidate& mine) {
  const auto high = static_cast<std::uint32_t>(mine.key >> 32);
  const auto low = static_cast<std::uint32_t>(mine.key);
  const std::uint32_t top_high = warp_max_u32(high);
  const std::uint32_t top_low = warp_max_u32(high == top_high ? low : 0U);
  const bool winner = high == top_high && low == top_low;
  return warp_min_u32(winner ? mine.expert : 0xFFFFFFFFU);
}

__global__ void __launch_bounds__(k_router_threads) route(router_params<float> p) {
  auto* const keys = dynamic_shared<std::uint64_t>();
  const std::int64_t row = blockIdx.x;
  const float* logits = p.logits + row * p.experts;
  for (auto e = static_cast<std::int32_t>(threadIdx.x); e < p.experts; e += k_router_threads) {
    keys[e] = key_of(score_of(logits[e]) + static_cast<double>(p.bias[e]));
  }
  __syncthreads();
  if (warp_index() != 0) return;
  const int lane = lane_index();
  std::int32_t picks[2] = {0, 0};
  candidate mine = best_of_lane(keys, p.experts);
  for (std::int32_t i = 0; i < p.per_token; ++i) {
    const std::uint32_t best = best_of_warp(mine);
    if (i % k_warp == lane) picks[i / k_warp] = static_cast<std::int32_t>(best);
    if (mine.expert == best) {  // this lane's alone to read
      keys[best] = 0;
      mine = best_of_lane(keys, p.experts);
    }
  }
  double scores[2];
  double total = 0.0;
  for (int n = 0; n < 2; ++n) {
    const bool there = n * k_warp + lane < p.per_token;
    scores[n] = there ? score_of(logits[picks[n]]) : 0.0;
    total += scores[n];
  }
  for (int step = k_warp / 2; step > 0; step /= 2) total += __shfl_xor_sync(k_all_lanes, total, step);
  const double factor = p.renormalize ? p.scale / (total + 1e-20) : p.scale;
  for (int n = 0; n < 2; ++n) {
    const std::int32_t i = n * k_warp + lane;
    if (i >= p.per_token) continue;
    p.ids[row * p.per_token + i] = picks[n];
    p.weights[row * p.per_token + i] = static_cast<float>(scores[n] * factor);
  }
}

}  // namespace

void router(const router_params<float>& p, const context& ctx) {
  launch(route, router_shape(p.rows, p.experts), ctx.stream, p);
}

}  // namespace weir::kernels::cuda
