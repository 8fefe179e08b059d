#include "kernels/cuda/library_product.hpp"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/plain.cuh"
#include "kernels/cuda/products.hpp"

namespace weir::kernels::cuda {

namespace {

// Sums of one row tile into c, where rows and tokens are there.
template <int TokenTiles>
__device__ void store_tile(float* c, const float (&sums)[TokenTiles][4], std::int64_t row, std::int64_t rows,
                           std::int64_t token, std::int64_t tokens) {
#pragma unroll
  for (int t = 0; t < TokenTiles; ++t) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::int64_t n = row + lane_index() / 4 + i / 2 * 8;
      const std::int64_t at = token + t * k_token_tile + lane_index() % 4 * 2 + i % 2;
      if (n < rows && at < tokens) c[at * rows + n] = sums[t][i];
    }
  }
}

template <dtype Type, int Parts, int RowTiles, int TokenTiles>
__global__ void __launch_bounds__(k_product_threads)
    gemm_narrow(gemm_params<float> p, int slices, std::int64_t blocks) {
  const std::int64_t token = blockIdx.x / blocks * (TokenTiles * k_token_tile);
  const int group = warp_index() / slices;
  const std::int64_t row =
      (blockIdx.x % blocks * (k_product_warps / slices) + group) * (RowTiles * k_row_tile);
  weight_row rows[RowTiles][2];
  for (int r = 0; r < RowTiles * 2; ++r) {
    rows[r / 2][r % 2] = row_of<Type>(p.b, static_cast<int>(row) + r * 8 + lane_index() / 4);
  }
  const float* tokens[TokenTiles];
  for (int t = 0; t < TokenTiles; ++t) {
    const std::int64_t at = token + t * k_token_tile + lane_index() / 4;
    tokens[t] = at < p.rows ? p.a + at * p.b.cols : nullptr;
  }
  const auto left = static_cast<int>(at_most(p.rows - token, TokenTiles * k_token_tile));
  float sums[RowTiles][TokenTiles][4] = {};
  multiply_narrow<Type, Parts>(sums, rows, tokens, (left + k_token_tile - 1) / k_token_tile, p.b.cols,
                               warp_index() % slices, slices);
  if (!add_slices(sums, slices)) return;
#pragma unroll
  for (int r = 0; r < RowTiles; ++r) {
    store_tile(p.c, sums[r], row + r * k_row_tile, p.b.rows, token, p.rows);
  }
}

template <dtype Type, int Parts>
__global__ void __launch_bounds__(k_product_threads, 1)
    gemm_wide(gemm_params<float> p, packed_rows a, std::int64_t row_blocks) {
  constexpr int k_tiles = wide_tiles(Parts);
  constexpr int k_tokens = wide_tokens(Parts);
  auto* const row_numbers = dynamic_shared<std::int32_t>();
  auto* const stages = reinterpret_cast<uint4*>(row_numbers + k_tokens);
  const std::int64_t token = blockIdx.x / row_blocks * k_tokens;
  const std::int64_t row =
      blockIdx.x % row_blocks * k_wide_rows + warp_index() * (k_wide_row_tiles * k_row_tile);
  for (int i = static_cast<int>(threadIdx.x); i < k_tokens; i += k_product_threads) {
    row_numbers[i] = static_cast<std::int32_t>(token) + i;
  }
  weight_row rows[k_wide_row_tiles][2];
  for (int r = 0; r < k_wide_row_tiles * 2; ++r) {
    rows[r / 2][r % 2] = row_of<Type>(p.b, static_cast<int>(row) + r * 8 + lane_index() / 4);
  }
  float sums[k_wide_row_tiles][k_tiles][4] = {};
  const auto count = static_cast<int>(at_most(p.rows - token, k_tokens));
  multiply_wide<Type, Parts>(sums, rows, a, row_numbers, stages, count, p.b.cols);
#pragma unroll
  for (int r = 0; r < k_wide_row_tiles; ++r) {
    store_tile(p.c, sums[r], row + r * k_row_tile, p.b.rows, token, p.rows);
  }
}

template <bool Round>
__global__ void __launch_bounds__(32 * k_plain_warps)
    gemm_plain(gemm_params<float> p, std::int64_t row_blocks) {
  const std::int64_t row = blockIdx.x % row_blocks * k_plain_warps + warp_index();
  if (row >= p.b.rows) return;
  const std::int64_t step = gridDim.x / row_blocks * k_plain_tokens;
  for (std::int64_t token = blockIdx.x / row_blocks * k_plain_tokens; token < p.rows; token += step) {
    const float* x[k_plain_tokens];
    for (int i = 0; i < k_plain_tokens; ++i) x[i] = p.a + (token + i) * p.b.cols;
    const auto count = static_cast<int>(at_most(p.rows - token, k_plain_tokens));
    float sums[k_plain_tokens];
    multiply_row<Round>(sums, p.b, row, x, count);
#pragma unroll
    for (int i = 0; i < k_plain_tokens; ++i) {
      if (i < count && lane_index() == i) p.c[(token + i) * p.b.rows + row] = sums[i];
    }
  }
}

template <dtype Type, int Parts, int RowTiles, int TokenTiles>
void run_narrow(const gemm_params<float>& p, const narrow_layout& layout, const context& ctx) {
  const auto shape =
      narrow_shape(layout.blocks, divide_up(p.rows, TokenTiles * k_token_tile), RowTiles, TokenTiles);
  launch(gemm_narrow<Type, Parts, RowTiles, TokenTiles>, shape, ctx.stream, p, layout.slices, layout.blocks);
}

template <dtype Type, int Parts>
void run_few(const gemm_params<float>& p, const context& ctx) {
  const narrow_layout layout = narrow_layout_of(p.b.rows);
  const bool one = p.rows <= k_token_tile;
  if (layout.row_tiles == 2) {
    return one ? run_narrow<Type, Parts, 2, 1>(p, layout, ctx)
               : run_narrow<Type, Parts, 2, k_few_tiles>(p, layout, ctx);
  }
  one ? run_narrow<Type, Parts, 1, 1>(p, layout, ctx)
      : run_narrow<Type, Parts, 1, k_few_tiles>(p, layout, ctx);
}

template <dtype Type, int Parts>
void run_tensor(const gemm_params<float>& p, const context& ctx) {
  if (p.rows <= k_few_tokens) return run_few<Type, Parts>(p, ctx);
  const packed_rows a = pack<Type, Parts>(p.a, ctx.workspace, p.rows, p.b.cols, ctx.stream);
  if (Type == dtype::bf16 &&
      multiply_by_library({a.data, p.b.data, p.c, p.rows, p.b.rows, p.b.cols, a.pitch, Parts,
                           ctx.workspace + packed_bytes(p.rows, p.b.cols, Parts), ctx.stream})) {
    return;
  }
  const std::int64_t row_blocks = divide_up(p.b.rows, k_wide_rows);
  launch(gemm_wide<Type, Parts>, wide_shape(row_blocks, divide_up(p.rows, wide_tokens(Parts)), Parts),
         ctx.stream, p, a, row_blocks);
}

void run_plain(const gemm_params<float>& p, bool round, const context& ctx) {
  const std::int64_t row_blocks = divide_up(p.b.rows, k_plain_warps);
  launch(round ? gemm_plain<true> : gemm_plain<false>, plain_shape(p.b.rows, p.rows), ctx.stream, p,
         row_blocks);
}

}  // namespace

template <activation_format Format>
void gemm(const gemm_params<float>& p, const context& ctx) {
  constexpr int k_parts = Format == activation_format::narrow ? 1 : 3;
  if (p.rows == 0 || p.b.rows == 0) return;
  const bool whole = p.b.cols % 8 == 0 && aligned16(p.a, p.b.data);
  if (whole && p.b.type == dtype::bf16) return run_tensor<dtype::bf16, k_parts>(p, ctx);
  if (whole && p.b.type == dtype::mxfp4) return run_tensor<dtype::mxfp4, k_parts>(p, ctx);
  run_plain(p, k_parts == 1 && rounds_activations(p.b.type), ctx);
}

// As if the pointers were aligned.
template <activation_format Format>
std::size_t gemm_workspace_bytes(const gemm_params<float>& p, int) {
  constexpr int k_parts = Format == activation_format::narrow ? 1 : 3;
  if (p.rows <= k_few_tokens || !rounds_activations(p.b.type)) return 0;
  return packed_bytes(p.rows, p.b.cols, k_parts) + (p.b.type == dtype::bf16 ? library_workspace_bytes() : 0);
}

template void gemm<activation_format::float32>(const gemm_params<float>&, const context&);
template void gemm<activation_format::narrow>(const gemm_params<float>&, const context&);
template std::size_t gemm_workspace_bytes<activation_format::float32>(const gemm_params<float>&, int);
template std::size_t gemm_workspace_bytes<activation_format::narrow>(const gemm_params<float>&, int);

}  // namespace weir::kernels::cuda
