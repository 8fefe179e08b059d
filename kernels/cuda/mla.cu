#include "kernels/cuda/mla.cuh"

#include "kernels/cuda/plain.cuh"
#include "kernels/cuda/product.cuh"
#include "kernels/cuda/products.hpp"

namespace weir::kernels::cuda {

namespace {

template <latent_format Format>
__device__ float latent_at(const void* pages, std::int64_t at) {
  if constexpr (Format == latent_format::bf16) return from_bf16(static_cast<const std::uint16_t*>(pages)[at]);
  return static_cast<const float*>(pages)[at];
}

// Adds positions [first, end) to the sums (in shared memory) of one head, with the largest score and the sum
// of the weights alike in all threads. Any shape.
template <latent_format Format>
__device__ void attend_positions(const mla_params<float>& p, std::int32_t sequence, const float* query,
                                 float* sums, float* scores, int first, int end, float& largest,
                                 float& total) {
  for (int tile = first; tile < end; tile += k_attend_positions) {
    const int count = end - tile < k_attend_positions ? end - tile : k_attend_positions;
    for (int i = warp_index(); i < count; i += k_attend_warps) {
      const std::int64_t at = latent_offset(p, sequence, tile + i);
      float score = 0.0F;
      for (int k = lane_index(); k < p.rank + p.rope_dim; k += k_warp) {
        score += query[k] * latent_at<Format>(p.pages, at + k);
      }
      score = warp_sum(score);
      if (lane_index() == 0) scores[i] = score;
    }
    __syncthreads();
    const float mine = lane_index() < count ? scores[lane_index()] : -INFINITY;
    const float next = fmaxf(largest, warp_max(mine));
    const float factor = expf(largest - next);
    const float weight = expf(mine - next);
    total = fmaf(total, factor, warp_sum(weight));
    largest = next;
    for (int k = static_cast<int>(threadIdx.x); k < p.rank; k += k_warp * k_attend_warps) {
      float sum = sums[k] * factor;
      for (int i = 0; i < count; ++i) {
        sum += expf(scores[i] - next) * latent_at<Format>(p.pages, latent_offset(p, sequence, tile + i) + k);
      }
      sums[k] = sum;
    }
    __syncthreads();
  }
}

template <latent_format Format>
__global__ void __launch_bounds__(k_warp* k_attend_warps) attend_plain(mla_stages a) {
  const mla_params<float>& p = a.p;
  const int width = p.rank + p.rope_dim;
  float* const query = dynamic_shared<float>();
  float* const sums = query + width;
  float* const scores = sums + p.rank;
  const std::int64_t head = blockIdx.x % p.heads;
  const std::int64_t slot = blockIdx.x / p.heads % a.slots;
  const std::int64_t row = blockIdx.x / p.heads / a.slots;
  const row_view view(p.batch, row);
  const int first_split = a.slots == 1 ? 0 : static_cast<int>(slot);
  const int last_split = a.slots == 1 ? view.splits() : first_split + 1;
  if (first_split >= view.splits()) return;
  const std::int64_t result = (row * p.heads + head) * a.slots + slot;
  const int me = static_cast<int>(threadIdx.x);
  constexpr int k_threads = k_warp * k_attend_warps;
  for (int k = me; k < width; k += k_threads) {
    query[k] = static_cast<const float*>(a.queries)[(row * p.heads + head) * width + k];
  }
  float largest = -INFINITY;
  float total = 0.0F;
  for (int split = first_split; split < last_split; ++split) {
    for (int k = me; k < p.rank; k += k_threads) sums[k] = 0.0F;
    __syncthreads();
    const int end = (split + 1) * view.split < view.count ? (split + 1) * view.split : view.count;
    float split_largest = -INFINITY;
    float split_total = 0.0F;
    attend_positions<Format>(p, view.sequence, query, sums, scores, split * view.split, end, split_largest,
                             split_total);
    const split_factors factors(largest, total, split_largest, split_total);
    for (int k = me; k < p.rank; k += k_threads) {
      float& to = a.sums[result * p.rank + k];
      to = split == first_split ? sums[k] : factors.join(to, sums[k]);
    }
  }
  if (me == 0) a.stats[result * 2] = largest, a.stats[result * 2 + 1] = total;
}

// The splits of a row and head in their order, divided by the sum of their weights.
__global__ void __launch_bounds__(k_merge_threads) merge(mla_stages a) {
  const std::int64_t query = blockIdx.x;
  const row_view view(a.p.batch, query / a.p.heads);
  const int splits = a.slots == 1 ? 1 : view.splits();
  const float* stats = a.stats + query * a.slots * 2;
  const float* sums = a.sums + query * a.slots * a.p.rank;
  for (int k = static_cast<int>(threadIdx.x); k < a.p.rank; k += k_merge_threads) {
    float largest = stats[0];
    float total = stats[1];
    float sum = sums[k];
#pragma unroll 4
    for (int split = 1; split < splits; ++split) {
      const split_factors factors(largest, total, stats[2 * split], stats[2 * split + 1]);
      sum = factors.join(sum, sums[static_cast<std::int64_t>(split) * a.p.rank + k]);
    }
    a.merged[query * a.p.rank + k] = sum / total;
  }
}

// Values of a head for eight tokens: rows of its part of kv_b.
template <int Parts>
__global__ void __launch_bounds__(k_product_threads) project(mla_stages a, int row_blocks, int slices) {
  const mla_params<float>& p = a.p;
  const int head = static_cast<int>(blockIdx.x / row_blocks % p.heads);
  const std::int64_t token = static_cast<std::int64_t>(blockIdx.x / row_blocks / p.heads) * k_token_tile;
  const int first =
      (static_cast<int>(blockIdx.x % row_blocks) * (k_product_warps / slices) + warp_index() / slices) *
      k_row_tile;
  const int value = first + lane_index() / 4;
  const int row = head * (p.nope_dim + p.value_dim) + p.nope_dim + value;
  const weight_row rows[1][2] = {{row_of<dtype::bf16>(p.kv_b, row), row_of<dtype::bf16>(p.kv_b, row + 8)}};
  const std::int64_t mine = token + lane_index() / 4;
  const float* const tokens[1] = {mine < p.batch.row_count ? a.merged + (mine * p.heads + head) * p.rank
                                                           : nullptr};
  float sums[1][1][4] = {};
  multiply_narrow<dtype::bf16, Parts>(sums, rows, tokens, 1, p.rank, warp_index() % slices, slices);
  if (!add_slices(sums, slices)) return;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::int64_t at = token + lane_index() % 4 * 2 + i % 2;
    const int n = value + i / 2 * 8;
    if (at < p.batch.row_count && n < p.value_dim)
      p.o[(at * p.heads + head) * p.value_dim + n] = sums[0][0][i];
  }
}

__global__ void __launch_bounds__(32 * k_plain_warps) project_plain(mla_stages a, int row_blocks) {
  const mla_params<float>& p = a.p;
  const int head = static_cast<int>(blockIdx.x / row_blocks % p.heads);
  const std::int64_t token = static_cast<std::int64_t>(blockIdx.x / row_blocks / p.heads) * k_plain_tokens;
  const int value = static_cast<int>(blockIdx.x % row_blocks) * k_plain_warps + warp_index();
  if (value >= p.value_dim) return;
  const float* x[k_plain_tokens];
  for (int i = 0; i < k_plain_tokens; ++i) x[i] = a.merged + ((token + i) * p.heads + head) * p.rank;
  const auto count = static_cast<int>(at_most(p.batch.row_count - token, k_plain_tokens));
  float sums[k_plain_tokens];
  multiply_row<false>(sums, p.kv_b,
                      static_cast<std::int64_t>(head) * (p.nope_dim + p.value_dim) + p.nope_dim + value, x,
                      count);
#pragma unroll
  for (int i = 0; i < k_plain_tokens; ++i) {
    if (i < count && lane_index() == i) p.o[((token + i) * p.heads + head) * p.value_dim + value] = sums[i];
  }
}

template <int Parts>
void run_project(const mla_stages& a, const context& ctx) {
  const std::int64_t rows = a.p.batch.row_count;
  if (a.p.kv_b.type == dtype::bf16 && a.p.rank % 8 == 0 && aligned16(a.p.kv_b.data)) {
    const int slices = slices_of(a.p.value_dim, k_row_tile, a.p.heads);
    const std::int64_t blocks = divide_up(a.p.value_dim, k_product_warps / slices * k_row_tile);
    launch(project<Parts>, narrow_shape(blocks, divide_up(rows, k_token_tile) * a.p.heads, 1, 1), ctx.stream,
           a, static_cast<int>(blocks), slices);
    return;
  }
  const std::int64_t blocks = divide_up(a.p.value_dim, k_plain_warps);
  launch(project_plain, project_plain_shape(rows, a.p.heads, a.p.value_dim), ctx.stream, a,
         static_cast<int>(blocks));
}

mla_layout layout_of(const mla_params<float>& p) {
  return mla_layout_of(p.batch.row_count, p.heads, p.rank, p.rope_dim, p.batch.context_max);
}

bool takes_tensor_cores(const mla_params<float>& p) {
  const int elements = p.format == latent_format::bf16 ? 8 : 4;  // of 16 bytes
  return p.rank == k_mla_rank && p.rank + p.rope_dim == k_mla_width && p.page_stride % elements == 0 &&
         aligned16(p.pages);
}

}  // namespace

template <activation_format Format>
void mla(const mla_params<float>& p, const context& ctx) {
  constexpr bool k_narrow = Format == activation_format::narrow;
  const mla_layout layout = layout_of(p);
  mla_stages a{};
  a.p = p;
  a.slots = layout.slots;
  a.queries = ctx.workspace + layout.queries;
  a.merged = reinterpret_cast<float*>(ctx.workspace + layout.queries);
  a.sums = reinterpret_cast<float*>(ctx.workspace + layout.sums);
  a.stats = reinterpret_cast<float*>(ctx.workspace + layout.stats);
  if (k_narrow && takes_tensor_cores(p)) {
    absorb_queries<std::uint16_t>(a, ctx);
    attend_on_tensor_cores(a, ctx);
  } else {
    absorb_queries<float>(a, ctx);
    launch(p.format == latent_format::bf16 ? attend_plain<latent_format::bf16>
                                           : attend_plain<latent_format::activation>,
           attend_plain_shape(p.batch.row_count, p.heads, a.slots, p.rank, p.rope_dim), ctx.stream, a);
  }
  launch(merge, merge_shape(p.batch.row_count, p.heads), ctx.stream, a);
  run_project<k_narrow ? 1 : 3>(a, ctx);
}

template <activation_format Format>
std::size_t mla_workspace_bytes(const mla_params<float>& p, int) {
  return layout_of(p).bytes;
}

template void mla<activation_format::float32>(const mla_params<float>&, const context&);
template void mla<activation_format::narrow>(const mla_params<float>&, const context&);
template std::size_t mla_workspace_bytes<activation_format::float32>(const mla_params<float>&, int);
template std::size_t mla_workspace_bytes<activation_format::narrow>(const mla_params<float>&, int);

}  // namespace weir::kernels::cuda
