#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops.hpp"
#include "kernels/cuda/residual_config.hpp"

namespace weir::kernels::cuda {

namespace {

constexpr int k_mix_warps = k_mix_threads / k_warp;

__device__ inline const float* source_of(const residual_mix_params<float>& p, std::int64_t row,
                                         std::int32_t source) {
  if (source == p.block_count) return p.current + row * p.dim;
  return p.blocks + (static_cast<std::int64_t>(source) * p.rows + row) * p.dim;
}

struct score_sums {
  float squares, dot;
};

// The source's score in every thread. One barrier: what a call writes lies apart from what the call before it
// reads (`turn` alternates).
__device__ inline float score_of(const residual_mix_params<float>& p, score_sums mine, int turn) {
  __shared__ score_sums parts[2][k_mix_warps];
  mine = {warp_sum(mine.squares), warp_sum(mine.dot)};
  if (lane_index() == 0) parts[turn % 2][warp_index()] = mine;
  __syncthreads();
  score_sums all{0.0F, 0.0F};
  for (int i = 0; i < k_mix_warps; ++i) {
    all.squares += parts[turn % 2][i].squares;
    all.dot += parts[turn % 2][i].dot;
  }
  return all.dot / sqrtf(all.squares / static_cast<float>(p.dim) + static_cast<float>(p.eps));
}

// The softmax over the scores so far: a source that comes has weight `fresh`, and what was summed before it
// is scaled by `kept`.
struct running_softmax {
  float largest = -INFINITY;
  float total = 0.0F;
  float kept = 0.0F;
  float fresh = 0.0F;

  __device__ void take(float score) {
    const float top = fmaxf(largest, score);
    kept = expf(largest - top);
    fresh = expf(score - top);
    total = total * kept + fresh;
    largest = top;
  }
};

template <int Quads>
__device__ inline void read_source(float4 (&out)[Quads], const float* from, std::int32_t quads) {
#pragma unroll
  for (int n = 0; n < Quads; ++n) {
    const auto i = static_cast<std::int32_t>(threadIdx.x) + n * k_mix_threads;
    out[n] = i < quads ? reinterpret_cast<const float4*>(from)[i] : make_float4(0.0F, 0.0F, 0.0F, 0.0F);
  }
}

__device__ inline void add_scaled(float4& sum, float kept, float fresh, const float4& v) {
  sum = make_float4(sum.x * kept + fresh * v.x, sum.y * kept + fresh * v.y, sum.z * kept + fresh * v.z,
                    sum.w * kept + fresh * v.w);
}

// Reads each source once, the next one while this one is weighed.
template <int Quads>
__global__ void __launch_bounds__(k_mix_threads, 1) mix_kept(residual_mix_params<float> p) {
  const std::int64_t row = blockIdx.x;
  const std::int32_t quads = p.dim / 4;
  float4 weight[Quads], value[Quads], next[Quads], sum[Quads];
  read_source(weight, p.norm, quads);
  read_source(next, p.proj, quads);
  read_source(value, source_of(p, row, 0), quads);
  for (int n = 0; n < Quads; ++n) {
    weight[n] = make_float4(weight[n].x * next[n].x, weight[n].y * next[n].y, weight[n].z * next[n].z,
                            weight[n].w * next[n].w);
    sum[n] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
  }
  running_softmax softmax;
  for (std::int32_t source = 0; source <= p.block_count; ++source) {
    if (source < p.block_count) read_source(next, source_of(p, row, source + 1), quads);
    score_sums mine{0.0F, 0.0F};
#pragma unroll
    for (int n = 0; n < Quads; ++n) {
      const float4 v = value[n], w = weight[n];
      mine.squares += v.x * v.x + v.y * v.y + (v.z * v.z + v.w * v.w);
      mine.dot += v.x * w.x + v.y * w.y + (v.z * w.z + v.w * w.w);
    }
    softmax.take(score_of(p, mine, source));
#pragma unroll
    for (int n = 0; n < Quads; ++n) {
      add_scaled(sum[n], softmax.kept, softmax.fresh, value[n]);
      value[n] = next[n];
    }
  }
#pragma unroll
  for (int n = 0; n < Quads; ++n) {
    const auto i = static_cast<std::int32_t>(threadIdx.x) + n * k_mix_threads;
    if (i >= quads) continue;
    float4 out = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    add_scaled(out, 0.0F, 1.0F / softmax.total, sum[n]);
    reinterpret_cast<float4*>(p.y + row * p.dim)[i] = out;
  }
}

// Rows of any width and alignment: scores first, then the sum.
__global__ void __launch_bounds__(k_mix_threads) mix_any(residual_mix_params<float> p) {
  __shared__ float scores[k_residual_sources_max];
  const std::int64_t row = blockIdx.x;
  const auto me = static_cast<std::int32_t>(threadIdx.x);
  running_softmax softmax;
  for (std::int32_t source = 0; source <= p.block_count; ++source) {
    const float* v = source_of(p, row, source);
    score_sums mine{0.0F, 0.0F};
    for (std::int32_t i = me; i < p.dim; i += k_mix_threads) {
      mine.squares += v[i] * v[i];
      mine.dot += v[i] * (p.norm[i] * p.proj[i]);
    }
    const float score = score_of(p, mine, source);
    softmax.take(score);
    if (me == 0) scores[source] = score;
  }
  __syncthreads();
  for (std::int32_t i = me; i < p.dim; i += k_mix_threads) {
    float sum = 0.0F;
    for (std::int32_t source = 0; source <= p.block_count; ++source) {
      sum += expf(scores[source] - softmax.largest) * source_of(p, row, source)[i];
    }
    p.y[row * p.dim + i] = sum / softmax.total;
  }
}

}  // namespace

void residual_mix(const residual_mix_params<float>& p, const context& ctx) {
  const std::int64_t quads = divide_up(p.dim, 4 * k_mix_threads);
  const bool wide =
      p.dim % 4 == 0 && p.dim <= k_mix_kept_dim_max && aligned16(p.blocks, p.current, p.norm, p.proj, p.y);
  auto* const kernel = !wide        ? mix_any
                       : quads == 1 ? mix_kept<1>
                       : quads == 2 ? mix_kept<2>
                                    : mix_kept<k_mix_quads_max>;
  launch(kernel, mix_shape(p.rows), ctx.stream, p);
}

}  // namespace weir::kernels::cuda
