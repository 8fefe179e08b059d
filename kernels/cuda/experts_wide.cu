#include "kernels/cuda/experts.cuh"

namespace weir::kernels::cuda {

namespace {

// Rows of the expanding stage: a row tile of w1 and the same of w3 in each warp.
constexpr int k_expand_rows = k_product_warps * k_row_tile;

// The tile's picks into shared memory, divided by `share`: rows of the stage's input.
__device__ void number_rows(std::int32_t* numbers, const experts_pass& a, const expert_tile& tile,
                            int share) {
  for (int i = static_cast<int>(threadIdx.x); i < tile.count; i += k_product_threads) {
    numbers[i] = a.order[tile.first + i] / share;
  }
}

template <int Parts>
__device__ void store_parts(std::uint16_t* to, std::int64_t part_stride, float value) {
#pragma unroll
  for (int part = 0; part < Parts; ++part) {
    const std::uint16_t bits = to_bf16(value);
    to[part * part_stride] = bits;
    value -= from_bf16(bits);
  }
}

template <dtype Type, int Parts>
__global__ void __launch_bounds__(k_product_threads, 1) expand_wide(experts_pass a, std::int64_t row_blocks) {
  constexpr int k_tiles = wide_tiles(Parts);
  auto* const numbers = dynamic_shared<std::int32_t>();
  auto* const stages = reinterpret_cast<uint4*>(numbers + wide_tokens(Parts));
  const expert_tile tile = a.tiles[blockIdx.x / row_blocks];
  if (tile.count == 0) return;
  number_rows(numbers, a, tile, a.p.per_token);
  const int row = static_cast<int>(blockIdx.x % row_blocks) * k_expand_rows + warp_index() * k_row_tile +
                  lane_index() / 4;
  const matrix gate = a.p.w1.each[tile.expert];
  const matrix up = a.p.w3.each[tile.expert];
  const weight_row rows[2][2] = {{row_of<Type>(gate, row), row_of<Type>(gate, row + 8)},
                                 {row_of<Type>(up, row), row_of<Type>(up, row + 8)}};
  float sums[2][k_tiles][4] = {};
  multiply_wide<Type, Parts>(sums, rows, a.packed, numbers, stages, tile.count, a.p.dim);
  auto* const hidden = const_cast<std::uint16_t*>(a.hidden_packed.data);
#pragma unroll
  for (int t = 0; t < k_tiles; ++t) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = t * k_token_tile + lane_index() % 4 * 2 + i % 2;
      const int n = row + i / 2 * 8;
      if (at >= tile.count || n >= a.hidden_packed.pitch) continue;
      const float value = n < a.p.width ? unit_of(a, sums[0][t][i], sums[1][t][i]) : 0.0F;
      store_parts<Parts>(hidden + a.order[tile.first + at] * a.hidden_packed.pitch + packed_index<Type>(n),
                         a.hidden_packed.part_stride, value);
    }
  }
}

template <dtype Type, int Parts>
__global__ void __launch_bounds__(k_product_threads, 1)
    contract_wide(experts_pass a, std::int64_t row_blocks) {
  constexpr int k_tiles = wide_tiles(Parts);
  auto* const numbers = dynamic_shared<std::int32_t>();
  auto* const stages = reinterpret_cast<uint4*>(numbers + wide_tokens(Parts));
  const expert_tile tile = a.tiles[blockIdx.x / row_blocks];
  if (tile.count == 0) return;
  number_rows(numbers, a, tile, 1);
  const int row = static_cast<int>(blockIdx.x % row_blocks) * k_wide_rows +
                  warp_index() * (k_wide_row_tiles * k_row_tile) + lane_index() / 4;
  const matrix down = a.p.w2.each[tile.expert];
  const weight_row rows[2][2] = {{row_of<Type>(down, row), row_of<Type>(down, row + 8)},
                                 {row_of<Type>(down, row + 16), row_of<Type>(down, row + 24)}};
  float sums[2][k_tiles][4] = {};
  multiply_wide<Type, Parts>(sums, rows, a.hidden_packed, numbers, stages, tile.count, a.p.width);
#pragma unroll
  for (int t = 0; t < k_tiles; ++t) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = t * k_token_tile + lane_index() % 4 * 2 + i % 2;
      if (at >= tile.count) continue;
      float* const out = a.out + static_cast<std::int64_t>(a.order[tile.first + at]) * a.p.dim;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int n = row + r * k_row_tile + i / 2 * 8;
        if (n < a.p.dim) out[n] = sums[r][t][i];
      }
    }
  }
}

}  // namespace

template <dtype Type, int Parts>
void run_wide(const experts_pass& a, const experts_layout& layout, const context& ctx) {
  const std::int64_t expand_blocks = divide_up(a.p.width, k_expand_rows);
  launch(expand_wide<Type, Parts>, wide_shape(expand_blocks, layout.tile_limit, Parts), ctx.stream, a,
         expand_blocks);
  const std::int64_t contract_blocks = divide_up(a.p.dim, k_wide_rows);
  launch(contract_wide<Type, Parts>, wide_shape(contract_blocks, layout.tile_limit, Parts), ctx.stream, a,
         contract_blocks);
}

template void run_wide<dtype::bf16, 1>(const experts_pass&, const experts_layout&, const context&);
template void run_wide<dtype::bf16, 3>(const experts_pass&, const experts_layout&, const context&);
template void run_wide<dtype::mxfp4, 1>(const experts_pass&, const experts_layout&, const context&);
template void run_wide<dtype::mxfp4, 3>(const experts_pass&, const experts_layout&, const context&);

}  // namespace weir::kernels::cuda
