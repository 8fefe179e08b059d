#include "kernels/cuda/experts.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/plain.cuh"
#include "kernels/cuda/products.hpp"

namespace weir::kernels::cuda {

namespace {

template <bool Round>
__global__ void __launch_bounds__(32 * k_plain_warps) expand_rows(experts_pass a, std::int64_t row_blocks) {
  const std::int64_t pick = blockIdx.x / row_blocks;
  const std::int64_t row = blockIdx.x % row_blocks * k_plain_warps + warp_index();
  if (row >= a.p.width) return;
  const int expert = a.p.ids[pick];
  const float* const x[1] = {a.p.x + pick / a.p.per_token * a.p.dim};
  float gate[1];
  float up[1];
  multiply_row<Round>(gate, a.p.w1.each[expert], row, x, 1);
  multiply_row<Round>(up, a.p.w3.each[expert], row, x, 1);
  if (lane_index() == 0) a.hidden[pick * a.p.width + row] = unit_of(a, gate[0], up[0]);
}

template <bool Round>
__global__ void __launch_bounds__(32 * k_plain_warps) contract_rows(experts_pass a, std::int64_t row_blocks) {
  const std::int64_t pick = blockIdx.x / row_blocks;
  const std::int64_t row = blockIdx.x % row_blocks * k_plain_warps + warp_index();
  if (row >= a.p.dim) return;
  const float* const x[1] = {a.hidden + pick * a.p.width};
  float down[1];
  multiply_row<Round>(down, a.p.w2.each[a.p.ids[pick]], row, x, 1);
  if (lane_index() == 0) a.out[pick * a.p.dim + row] = down[0];
}

constexpr int parts_of(activation_format format) {
  return format == activation_format::narrow ? 1 : 3;
}

// Whether tensor cores take matrices of such rows.
bool takes(dtype type, std::int32_t cols) {
  return rounds_activations(type) && cols % 8 == 0;
}

experts_layout layout_of(const experts_params<float>& p, bool aligned, int parts) {
  const bool tensor =
      aligned && takes(p.w1.type, p.dim) && takes(p.w2.type, p.width) && p.w1.type == p.w2.type;
  return experts_layout_of({p.rows, p.experts, p.per_token, p.dim, p.width}, tensor, parts);
}

template <dtype Type, int Parts>
void pack_and_run_wide(experts_pass& a, const experts_layout& layout, const context& ctx) {
  a.packed = pack<Type, Parts>(a.p.x, ctx.workspace + layout.packed, a.p.rows, a.p.dim, ctx.stream);
  const std::int64_t pitch = packed_depth(a.p.width);
  a.hidden_packed = {reinterpret_cast<const std::uint16_t*>(a.hidden), a.p.rows * a.p.per_token * pitch,
                     pitch};
  run_wide<Type, Parts>(a, layout, ctx);
}

template <int Parts>
void run_pass(experts_pass a, const experts_layout& layout, const context& ctx) {
  const bool tensor_in = takes(a.p.w1.type, a.p.dim) && aligned16(a.p.x);
  const bool tensor_out = takes(a.p.w2.type, a.p.width);
  const bool packed_in = a.p.w1.type == dtype::mxfp4;
  const bool packed_out = a.p.w2.type == dtype::mxfp4;
  if (tensor_in || tensor_out) sort_picks(a.p, layout, ctx);
  if (layout.wide) {
    packed_in ? pack_and_run_wide<dtype::mxfp4, Parts>(a, layout, ctx)
              : pack_and_run_wide<dtype::bf16, Parts>(a, layout, ctx);
    return combine_picks(a, ctx);
  }
  if (!tensor_in) {
    expand_plain(a, Parts == 1 && rounds_activations(a.p.w1.type), ctx);
  } else if (packed_in) {
    expand_narrow<dtype::mxfp4, Parts>(a, layout, ctx);
  } else {
    expand_narrow<dtype::bf16, Parts>(a, layout, ctx);
  }
  if (!tensor_out) {
    contract_plain(a, Parts == 1 && rounds_activations(a.p.w2.type), ctx);
  } else if (packed_out) {
    contract_narrow<dtype::mxfp4, Parts>(a, layout, ctx);
  } else {
    contract_narrow<dtype::bf16, Parts>(a, layout, ctx);
  }
  combine_picks(a, ctx);
}

}  // namespace

void expand_plain(const experts_pass& a, bool round, const context& ctx) {
  const std::int64_t blocks = divide_up(a.p.width, k_plain_warps);
  launch(round ? expand_rows<true> : expand_rows<false>,
         plain_picks_shape(static_cast<std::int64_t>(a.p.rows) * a.p.per_token, a.p.width), ctx.stream, a,
         blocks);
}

void contract_plain(const experts_pass& a, bool round, const context& ctx) {
  const std::int64_t blocks = divide_up(a.p.dim, k_plain_warps);
  launch(round ? contract_rows<true> : contract_rows<false>,
         plain_picks_shape(static_cast<std::int64_t>(a.p.rows) * a.p.per_token, a.p.dim), ctx.stream, a,
         blocks);
}

template <activation_format Format>
void experts(const experts_params<float>& p, const context& ctx) {
  constexpr int k_parts = parts_of(Format);
  const experts_layout layout = layout_of(p, aligned16(p.x), k_parts);
  for (std::int64_t row = 0; row < p.rows; row += k_pass_rows) {
    experts_pass a{};
    a.p = p;
    a.p.rows = static_cast<std::int32_t>(at_most(p.rows - row, k_pass_rows));
    a.p.x += row * p.dim;
    a.p.y += row * p.dim;
    a.p.ids += row * p.per_token;
    a.p.weights += row * p.per_token;
    a.order = reinterpret_cast<const std::int32_t*>(ctx.workspace + layout.order);
    a.tiles = reinterpret_cast<const expert_tile*>(ctx.workspace + layout.tiles);
    a.hidden = reinterpret_cast<float*>(ctx.workspace + layout.hidden);
    a.out = reinterpret_cast<float*>(ctx.workspace + layout.out);
    a.beta = static_cast<float>(p.situ.beta);
    a.linear = static_cast<float>(p.situ.linear_beta);
    run_pass<k_parts>(a, layout, ctx);
  }
}

template <activation_format Format>
std::size_t experts_workspace_bytes(const experts_params<float>& p, int) {
  const std::size_t aligned = layout_of(p, true, parts_of(Format)).bytes;
  const std::size_t other = layout_of(p, false, parts_of(Format)).bytes;
  return aligned > other ? aligned : other;
}

template void experts<activation_format::float32>(const experts_params<float>&, const context&);
template void experts<activation_format::narrow>(const experts_params<float>&, const context&);
template std::size_t experts_workspace_bytes<activation_format::float32>(const experts_params<float>&, int);
template std::size_t experts_workspace_bytes<activation_format::narrow>(const experts_params<float>&, int);

}  // namespace weir::kernels::cuda
