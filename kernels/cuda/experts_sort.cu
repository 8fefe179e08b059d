#include "kernels/cuda/experts.cuh"

namespace weir::kernels::cuda {

namespace {

// The sum of `value` over the threads before this one, and of all in `total`. `warps`: 32 ints of shared
// memory, free when all have come here.
__device__ int scan_block(int value, std::int32_t* warps, int& total) {
  int sum = value;
  for (int step = 1; step < k_warp; step *= 2) {
    const int other = __shfl_up_sync(k_all_lanes, sum, step);
    if (lane_index() >= step) sum += other;
  }
  __syncthreads();
  if (lane_index() == k_warp - 1) warps[warp_index()] = sum;
  __syncthreads();
  int before = 0;
  total = 0;
  for (int w = 0; w < k_sort_threads / k_warp; ++w) {
    if (w < warp_index()) before += warps[w];
    total += warps[w];
  }
  return before + sum - value;
}

// One block. Tiles behind the last are empty ones. Picks of an expert come in any order, which changes
// nothing in what is computed of each.
__global__ void __launch_bounds__(k_sort_threads)
    sort_by_expert(const std::int32_t* ids, int picks, int experts, int tile_tokens, std::int32_t* order,
                   expert_tile* tiles, int tile_limit) {
  auto* const warps = dynamic_shared<std::int32_t>();
  std::int32_t* const counts = warps + 32;  // [experts], later the next place of each
  const int me = static_cast<int>(threadIdx.x);
  for (int e = me; e < experts; e += k_sort_threads) counts[e] = 0;
  __syncthreads();
  for (int i = me; i < picks; i += k_sort_threads) atomicAdd(&counts[ids[i]], 1);
  __syncthreads();
  const int share = (experts + k_sort_threads - 1) / k_sort_threads;
  const int first = me * share < experts ? me * share : experts;
  const int last = first + share < experts ? first + share : experts;
  int mine = 0;
  int my_tiles = 0;
  for (int e = first; e < last; ++e) {
    mine += counts[e];
    my_tiles += (counts[e] + tile_tokens - 1) / tile_tokens;
  }
  int total = 0;
  int place = scan_block(mine, warps, total);
  int tile = scan_block(my_tiles, warps, total);
  for (int e = first; e < last; ++e) {
    const int count = counts[e];
    for (int done = 0; done < count; done += tile_tokens) {
      const int left = count - done;
      tiles[tile++] = {e, place + done, left < tile_tokens ? left : tile_tokens, 0};
    }
    counts[e] = place;
    place += count;
  }
  for (int i = total + me; i < tile_limit; i += k_sort_threads) tiles[i] = {0, 0, 0, 0};
  __syncthreads();
  for (int i = me; i < picks; i += k_sort_threads) order[atomicAdd(&counts[ids[i]], 1)] = i;
}

__global__ void __launch_bounds__(k_combine_threads) add_picks(experts_pass a) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * k_combine_threads + threadIdx.x;
  if (i >= static_cast<std::int64_t>(a.p.rows) * a.p.dim) return;
  const std::int64_t row = i / a.p.dim;
  const float* out = a.out + row * a.p.per_token * a.p.dim + i % a.p.dim;
  const float* weights = a.p.weights + row * a.p.per_token;
  float sum = 0.0F;
#pragma unroll 8
  for (int pick = 0; pick < a.p.per_token; ++pick) {
    sum += weights[pick] * out[static_cast<std::int64_t>(pick) * a.p.dim];
  }
  a.p.y[i] = sum;
}

}  // namespace

void sort_picks(const experts_params<float>& p, const experts_layout& layout, const context& ctx) {
  launch(sort_by_expert, 1, k_sort_threads, sort_shared_bytes(p.experts), ctx.stream, p.ids,
         p.rows * p.per_token, p.experts, layout.tile_tokens,
         reinterpret_cast<std::int32_t*>(ctx.workspace + layout.order),
         reinterpret_cast<expert_tile*>(ctx.workspace + layout.tiles), static_cast<int>(layout.tile_limit));
}

void combine_picks(const experts_pass& a, const context& ctx) {
  launch(add_picks, combine_shape(a.p.rows, a.p.dim), ctx.stream, a);
}

}  // namespace weir::kernels::cuda
