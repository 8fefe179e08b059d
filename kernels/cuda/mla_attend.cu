#include "kernels/cuda/mla.cuh"

namespace weir::kernels::cuda {

namespace {

using query_tiles = std::uint32_t[2][k_mla_depth_steps][4];  // of the 32 heads, this warp's part of the depth
using score_tiles = float[2][2][4];                          // heads, 16 positions
using sum_tiles = float[2][k_mla_columns / 8][4];            // heads, this warp's columns

struct attend_block {
  unsigned char* shared = dynamic_shared<unsigned char>();
  const int lane = lane_index();
  const int warp = warp_index();
  const int depth_part = warp % k_mla_depth_warps;
  const int half = warp / k_mla_depth_warps;

  __device__ std::uint16_t* latents(int tile) const {
    return reinterpret_cast<std::uint16_t*>(shared + mla_shared::k_latents) +
           tile % k_mla_buffers * (k_mla_positions * k_mla_latent_pitch);
  }
  __device__ float* scores() const { return reinterpret_cast<float*>(shared + mla_shared::k_scores); }
  __device__ std::uint16_t* weights() const {
    return reinterpret_cast<std::uint16_t*>(shared + mla_shared::k_weights);
  }
  // Of each head: what becomes of its sums so far; at a split's end of its result before, and of the split's.
  __device__ float* factors() const { return reinterpret_cast<float*>(shared + mla_shared::k_factors); }
};

__device__ void load_queries(query_tiles& into, const attend_block& b, const mla_stages& a, std::int64_t row,
                             int first_head) {
  const auto* queries = static_cast<const std::uint16_t*>(a.queries);
#pragma unroll
  for (int i = 0; i < 2 * k_mla_depth_steps * 4; ++i) {
    const int head = first_head + i / 4 / k_mla_depth_steps * 16 + b.lane / 4 + i % 2 * 8;
    const int depth =
        (b.depth_part * k_mla_depth_steps + i / 4 % k_mla_depth_steps) * 16 + i % 4 / 2 * 8 + b.lane % 4 * 2;
    std::uint32_t pair = 0;
    if (head < a.p.heads) {
      pair =
          *reinterpret_cast<const std::uint32_t*>(queries + (row * a.p.heads + head) * k_mla_width + depth);
    }
    into[i / 4 / k_mla_depth_steps][i / 4 % k_mla_depth_steps][i % 4] = pair;
  }
}

// Starts on its way what is stored for positions first.. below `end`; zeros from there on.
template <latent_format Format>
__device__ void fetch_tile(const attend_block& b, const mla_params<float>& p, std::int32_t sequence,
                           int first, int end, int tile) {
  constexpr int k_chunks = k_mla_width / 8;
  std::uint16_t* const into = b.latents(tile);
  for (int i = static_cast<int>(threadIdx.x); i < k_mla_positions * k_chunks; i += k_mla_threads) {
    const int position = first + i / k_chunks;
    const bool there = position < end;
    const std::int64_t from = there ? latent_offset(p, sequence, position) + i % k_chunks * 8 : 0;
    std::uint16_t* const to = into + i / k_chunks * k_mla_latent_pitch + i % k_chunks * 8;
    if constexpr (Format == latent_format::bf16) {
      copy_async16(to, static_cast<const std::uint16_t*>(p.pages) + from, there);
    } else {
      uint4 chunk = make_uint4(0, 0, 0, 0);
      if (there) {
        const auto* values = reinterpret_cast<const float4*>(static_cast<const float*>(p.pages) + from);
        chunk = make_uint4(pack_bf16(values[0].x, values[0].y), pack_bf16(values[0].z, values[0].w),
                           pack_bf16(values[1].x, values[1].y), pack_bf16(values[1].z, values[1].w));
      }
      *reinterpret_cast<uint4*>(to) = chunk;
    }
  }
  commit_copies();
}

// This warp's part of the scores of half a tile, into shared memory: [depth_warps, heads, positions].
__device__ void score_tile(const attend_block& b, const query_tiles& queries, int tile) {
  score_tiles scores = {};
  const std::uint16_t* const row = b.latents(tile) +
                                   (b.half * 16 + b.lane / 16 * 8 + b.lane % 8) * k_mla_latent_pitch +
                                   b.depth_part * (k_mla_depth_steps * 16) + b.lane / 8 % 2 * 8;
#pragma unroll
  for (int step = 0; step < k_mla_depth_steps; ++step) {
    std::uint32_t latents[4];
    load_tiles(latents, row + step * 16);
    const std::uint32_t first[2] = {latents[0], latents[1]};
    const std::uint32_t second[2] = {latents[2], latents[3]};
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      mma_bf16(scores[m][0], queries[m][step], first);
      mma_bf16(scores[m][1], queries[m][step], second);
    }
  }
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const int head = i / 8 * 16 + i % 4 / 2 * 8 + b.lane / 4;
    const int position = b.half * 16 + i / 4 % 2 * 8 + b.lane % 4 * 2 + i % 2;
    b.scores()[(b.depth_part * k_mla_heads + head) * k_mla_score_pitch + position] =
        scores[i / 8][i / 4 % 2][i % 4];
  }
}

// Four heads of a warp, alike in all of its lanes.
struct head_stats {
  float largest[4];
  float sum[4];

  __device__ head_stats() {
    for (int i = 0; i < 4; ++i) largest[i] = -INFINITY, sum[i] = 0.0F;
  }
};

// Weights of the tile's positions, of which `left` are there, for the warp's four heads. A lane has a
// position.
__device__ void weigh_tile(const attend_block& b, head_stats& stats, int left) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int head = b.warp * 4 + i;
    float score = 0.0F;
#pragma unroll
    for (int part = 0; part < k_mla_depth_warps; ++part) {
      score += b.scores()[(part * k_mla_heads + head) * k_mla_score_pitch + b.lane];
    }
    if (b.lane >= left) score = -INFINITY;
    const float largest = fmaxf(stats.largest[i], warp_max(score));
    const float weight = expf(score - largest);
    const float factor = expf(stats.largest[i] - largest);
    stats.sum[i] = fmaf(stats.sum[i], factor, warp_sum(weight));
    stats.largest[i] = largest;
    b.weights()[head * k_mla_weight_pitch + b.lane] = to_bf16(weight);
    if (b.lane == 0) b.factors()[head] = factor;
  }
}

// Adds the tile's latents by their weights to the sums of the warp's columns.
__device__ void mix_tile(const attend_block& b, sum_tiles& sums, int tile) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float factor = b.factors()[i / 2 * 16 + i % 2 * 8 + b.lane / 4];
#pragma unroll
    for (int n = 0; n < k_mla_columns / 8; ++n) {
      sums[i / 2][n][i % 2 * 2] *= factor;
      sums[i / 2][n][i % 2 * 2 + 1] *= factor;
    }
  }
#pragma unroll
  for (int step = 0; step < k_mla_positions / 16; ++step) {
    std::uint32_t weights[2][4];
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      const int head = m * 16 + b.lane / 8 % 2 * 8 + b.lane % 8;
      load_tiles(weights[m], b.weights() + head * k_mla_weight_pitch + step * 16 + b.lane / 16 * 8);
    }
    const std::uint16_t* const row = b.latents(tile) +
                                     (step * 16 + b.lane / 8 % 2 * 8 + b.lane % 8) * k_mla_latent_pitch +
                                     b.warp * k_mla_columns + b.lane / 16 * 8;
#pragma unroll
    for (int n = 0; n < k_mla_columns / 16; ++n) {
      std::uint32_t latents[4];
      load_tiles_transposed(latents, row + n * 16);
      const std::uint32_t first[2] = {latents[0], latents[1]};
      const std::uint32_t second[2] = {latents[2], latents[3]};
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        mma_bf16(sums[m][2 * n], weights[m], first);
        mma_bf16(sums[m][2 * n + 1], weights[m], second);
      }
    }
  }
}

// One split: positions [first, end).
template <latent_format Format>
__device__ void attend_split(const attend_block& b, const mla_params<float>& p, std::int32_t sequence,
                             const query_tiles& queries, head_stats& stats, sum_tiles& sums, int first,
                             int end) {
  const int tiles = (end - first + k_mla_positions - 1) / k_mla_positions;
  const auto fetch = [&](int tile) {
    if (tile < tiles) {
      fetch_tile<Format>(b, p, sequence, first + tile * k_mla_positions, end, tile);
    } else {
      commit_copies();
    }
  };
  __syncthreads();  // the buffers may still be read of the split before
  for (int tile = 0; tile < k_mla_buffers - 1; ++tile) fetch(tile);
  for (int tile = 0; tile < tiles; ++tile) {
    wait_copies<k_mla_buffers - 2>();
    __syncthreads();
    fetch(tile + k_mla_buffers - 1);
    score_tile(b, queries, tile);
    __syncthreads();
    weigh_tile(b, stats, end - first - tile * k_mla_positions);
    __syncthreads();
    mix_tile(b, sums, tile);
  }
}

// Hands on a split's sums, or joins them to those of the splits before.
__device__ void store_sums(const attend_block& b, const mla_stages& a, const sum_tiles& sums,
                           std::int64_t row, int first_head, std::int64_t slot, bool join) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int local = i / 2 * 16 + i % 2 * 8 + b.lane / 4;
    if (first_head + local >= a.p.heads) continue;
    float* const to = a.sums + ((row * a.p.heads + first_head + local) * a.slots + slot) * k_mla_rank +
                      b.warp * k_mla_columns + b.lane % 4 * 2;
    const float before = b.factors()[local];
    const float next = b.factors()[k_mla_heads + local];
#pragma unroll
    for (int n = 0; n < k_mla_columns / 8; ++n) {
      auto* const pair = reinterpret_cast<float2*>(to + n * 8);
      float2 value = make_float2(sums[i / 2][n][i % 2 * 2], sums[i / 2][n][i % 2 * 2 + 1]);
      if (join) {
        value.x = fmaf(value.x, next, pair->x * before);
        value.y = fmaf(value.y, next, pair->y * before);
      }
      *pair = value;
    }
  }
}

template <latent_format Format>
__global__ void __launch_bounds__(k_mla_threads, 1) attend(mla_stages a, int groups) {
  const attend_block b;
  const int first_head = static_cast<int>(blockIdx.x % groups) * k_mla_heads;
  const std::int64_t slot = blockIdx.x / groups % a.slots;
  const std::int64_t row = blockIdx.x / groups / a.slots;
  const row_view view(a.p.batch, row);
  // With one slot all splits are this block's.
  const int first_split = a.slots == 1 ? 0 : static_cast<int>(slot);
  const int last_split = a.slots == 1 ? view.splits() : first_split + 1;
  if (first_split >= view.splits()) return;
  query_tiles queries;
  load_queries(queries, b, a, row, first_head);
  head_stats total;
  for (int split = first_split; split < last_split; ++split) {
    const int end = (split + 1) * view.split < view.count ? (split + 1) * view.split : view.count;
    head_stats stats;
    sum_tiles sums = {};
    attend_split<Format>(b, a.p, view.sequence, queries, stats, sums, split * view.split, end);
    __syncthreads();
    for (int i = 0; i < 4; ++i) {
      const split_factors factors(total.largest[i], total.sum[i], stats.largest[i], stats.sum[i]);
      b.factors()[b.warp * 4 + i] = factors.before;
      b.factors()[k_mla_heads + b.warp * 4 + i] = factors.next;
    }
    __syncthreads();
    store_sums(b, a, sums, row, first_head, slot, split != first_split);
  }
  for (int i = 0; i < 4; ++i) {
    const int head = first_head + b.warp * 4 + i;
    if (b.lane != 0 || head >= a.p.heads) continue;
    float* const to = a.stats + ((row * a.p.heads + head) * a.slots + slot) * 2;
    to[0] = total.largest[i];
    to[1] = total.sum[i];
  }
}

}  // namespace

void attend_on_tensor_cores(const mla_stages& a, const context& ctx) {
  const auto groups = static_cast<int>(divide_up(a.p.heads, k_mla_heads));
  const launch_shape shape = attend_shape(a.p.batch.row_count, a.p.heads, a.slots);
  launch(a.p.format == latent_format::bf16 ? attend<latent_format::bf16> : attend<latent_format::activation>,
         shape, ctx.stream, a, groups);
}

}  // namespace weir::kernels::cuda
