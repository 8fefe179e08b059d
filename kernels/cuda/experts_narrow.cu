#include "kernels/cuda/experts.cuh"

namespace weir::kernels::cuda {

namespace {

// What a warp of a narrow stage has to do.
template <int TokenTiles>
struct narrow_work {
  expert_tile tile;
  int row;    // first of its rows
  int slice;  // of the depth
  int tiles;  // of tokens that are there
  const float* tokens[TokenTiles];

  // `source` of a pick is its row divided by `share`.
  __device__ narrow_work(const experts_pass& a, std::int64_t row_blocks, int slices, int group_rows,
                         const float* source, int share, int cols)
      : tile(a.tiles[blockIdx.x / row_blocks]),
        row((static_cast<int>(blockIdx.x % row_blocks) * (k_product_warps / slices) + warp_index() / slices) *
            group_rows),
        slice(warp_index() % slices),
        tiles((tile.count + k_token_tile - 1) / k_token_tile) {
#pragma unroll
    for (int t = 0; t < TokenTiles; ++t) {
      const int at = t * k_token_tile + lane_index() / 4;
      tokens[t] = at < tile.count
                      ? source + static_cast<std::int64_t>(a.order[tile.first + at] / share) * cols
                      : nullptr;
    }
  }
  // The pick whose sums i of token tile t are; -1: none.
  __device__ int pick(const experts_pass& a, int t, int i) const {
    const int at = t * k_token_tile + lane_index() % 4 * 2 + i % 2;
    return at < tile.count ? a.order[tile.first + at] : -1;
  }
};

template <dtype Type, int Parts, int TokenTiles>
__global__ void __launch_bounds__(k_product_threads)
    expand_kernel(experts_pass a, std::int64_t row_blocks, int slices) {
  const narrow_work<TokenTiles> work(a, row_blocks, slices, k_row_tile, a.p.x, a.p.per_token, a.p.dim);
  if (work.tile.count == 0) return;
  const matrix gate = a.p.w1.each[work.tile.expert];
  const matrix up = a.p.w3.each[work.tile.expert];
  const int row = work.row + lane_index() / 4;
  const weight_row rows[2][2] = {{row_of<Type>(gate, row), row_of<Type>(gate, row + 8)},
                                 {row_of<Type>(up, row), row_of<Type>(up, row + 8)}};
  float sums[2][TokenTiles][4] = {};
  multiply_narrow<Type, Parts>(sums, rows, work.tokens, work.tiles, a.p.dim, work.slice, slices);
  if (!add_slices(sums, slices)) return;
#pragma unroll
  for (int t = 0; t < TokenTiles; ++t) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int pick = work.pick(a, t, i);
      const int n = row + i / 2 * 8;
      if (pick < 0 || n >= a.p.width) continue;
      a.hidden[static_cast<std::int64_t>(pick) * a.p.width + n] = unit_of(a, sums[0][t][i], sums[1][t][i]);
    }
  }
}

constexpr int k_contract_tiles = 2;  // of rows: twice the work of an activation that was read

template <dtype Type, int Parts, int TokenTiles>
__global__ void __launch_bounds__(k_product_threads)
    contract_kernel(experts_pass a, std::int64_t row_blocks, int slices) {
  const narrow_work<TokenTiles> work(a, row_blocks, slices, k_contract_tiles * k_row_tile, a.hidden, 1,
                                     a.p.width);
  if (work.tile.count == 0) return;
  const matrix down = a.p.w2.each[work.tile.expert];
  const int row = work.row + lane_index() / 4;
  const weight_row rows[k_contract_tiles][2] = {{row_of<Type>(down, row), row_of<Type>(down, row + 8)},
                                                {row_of<Type>(down, row + 16), row_of<Type>(down, row + 24)}};
  float sums[k_contract_tiles][TokenTiles][4] = {};
  multiply_narrow<Type, Parts>(sums, rows, work.tokens, work.tiles, a.p.width, work.slice, slices);
  if (!add_slices(sums, slices)) return;
#pragma unroll
  for (int t = 0; t < TokenTiles; ++t) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int pick = work.pick(a, t, i);
#pragma unroll
      for (int r = 0; r < k_contract_tiles; ++r) {
        const int n = row + r * k_row_tile + i / 2 * 8;
        if (pick >= 0 && n < a.p.dim) a.out[static_cast<std::int64_t>(pick) * a.p.dim + n] = sums[r][t][i];
      }
    }
  }
}

}  // namespace

template <dtype Type, int Parts>
void expand_narrow(const experts_pass& a, const experts_layout& layout, const context& ctx) {
  const int slices = slices_of(a.p.width, k_row_tile, a.p.per_token);
  const std::int64_t blocks = divide_up(a.p.width, k_product_warps / slices * k_row_tile);
  const bool one = layout.tile_tokens == k_token_tile;
  launch(one ? expand_kernel<Type, Parts, 1> : expand_kernel<Type, Parts, k_few_tiles>,
         narrow_shape(blocks, layout.tile_limit, 2, one ? 1 : k_few_tiles), ctx.stream, a, blocks, slices);
}

template <dtype Type, int Parts>
void contract_narrow(const experts_pass& a, const experts_layout& layout, const context& ctx) {
  const int slices = slices_of(a.p.dim, k_contract_tiles * k_row_tile, a.p.per_token);
  const std::int64_t blocks = divide_up(a.p.dim, k_product_warps / slices * k_contract_tiles * k_row_tile);
  const bool one = layout.tile_tokens == k_token_tile;
  launch(one ? contract_kernel<Type, Parts, 1> : contract_kernel<Type, Parts, k_few_tiles>,
         narrow_shape(blocks, layout.tile_limit, k_contract_tiles, one ? 1 : k_few_tiles), ctx.stream, a,
         blocks, slices);
}

#define WEIR_EXPERTS_NARROW(type, parts)                                                        \
  template void expand_narrow<dtype::type, parts>(const experts_pass&, const experts_layout&,   \
                                                  const context&);                              \
  template void contract_narrow<dtype::type, parts>(const experts_pass&, const experts_layout&, \
                                                    const context&)
WEIR_EXPERTS_NARROW(bf16, 1);
WEIR_EXPERTS_NARROW(bf16, 3);
WEIR_EXPERTS_NARROW(mxfp4, 1);
WEIR_EXPERTS_NARROW(mxfp4, 3);
#undef WEIR_EXPERTS_NARROW

}  // namespace weir::kernels::cuda
