#include "kernels/cuda/device.cuh"
#include "kernels/cuda/gather_config.hpp"
#include "kernels/cuda/ops.hpp"

namespace weir::kernels::cuda {

namespace {

// Part blockIdx.x % parts of row blockIdx.x / parts.
template <bool Wide>
__global__ void __launch_bounds__(k_row_threads)
    gather_rows(const float* x, const std::int32_t* ids, float* y, std::int32_t dim, std::int32_t parts) {
  const std::int64_t row = blockIdx.x / static_cast<unsigned>(parts);
  const auto part = static_cast<std::int32_t>(blockIdx.x % static_cast<unsigned>(parts));
  const auto me = static_cast<std::int32_t>(threadIdx.x);
  const float* from = x + static_cast<std::int64_t>(ids[row]) * dim;
  float* to = y + row * dim;
  if constexpr (Wide) {
    const std::int32_t i = part * k_row_part + 4 * me;
    if (i < dim) *reinterpret_cast<float4*>(to + i) = *reinterpret_cast<const float4*>(from + i);
  } else {
    const std::int32_t end = min((part + 1) * k_row_part, dim);
    for (std::int32_t i = part * k_row_part + me; i < end; i += k_row_threads) to[i] = from[i];
  }
}

template <bool Wide>
__global__ void __launch_bounds__(k_row_threads)
    embed_rows(matrix table, const std::int32_t* ids, float* y, std::int32_t parts) {
  const std::int64_t row = blockIdx.x / static_cast<unsigned>(parts);
  const auto part = static_cast<std::int32_t>(blockIdx.x % static_cast<unsigned>(parts));
  const auto me = static_cast<std::int32_t>(threadIdx.x);
  const std::int64_t from = static_cast<std::int64_t>(ids[row]) * table.cols;
  float* to = y + row * table.cols;
  if constexpr (Wide) {  // bf16
    const std::int32_t i = part * k_row_part + 4 * me;
    if (i >= table.cols) return;
    const auto* halves = static_cast<const std::uint16_t*>(table.data) + from;
    const uint2 v = *reinterpret_cast<const uint2*>(halves + i);
    *reinterpret_cast<float4*>(to + i) =
        make_float4(low_bf16(v.x), high_bf16(v.x), low_bf16(v.y), high_bf16(v.y));
  } else {
    const std::int32_t end = min((part + 1) * k_row_part, table.cols);
    for (std::int32_t i = part * k_row_part + me; i < end; i += k_row_threads) {
      to[i] = load_element(table.data, table.type, static_cast<std::size_t>(from + i));
    }
  }
}

}  // namespace

void gather(const gather_params<float>& p, const context& ctx) {
  const bool wide = p.dim % 4 == 0 && aligned16(p.x, p.y);
  launch(wide ? gather_rows<true> : gather_rows<false>, row_part_shape(p.rows, p.dim), ctx.stream, p.x, p.ids,
         p.y, p.dim, row_parts(p.dim));
}

void embed(const embed_params<float>& p, const context& ctx) {
  const std::int32_t dim = p.table.cols;
  const bool wide = p.table.type == dtype::bf16 && dim % 4 == 0 && aligned16(p.table.data, p.y);
  launch(wide ? embed_rows<true> : embed_rows<false>, row_part_shape(p.rows, dim), ctx.stream, p.table, p.ids,
         p.y, row_parts(dim));
}

}  // namespace weir::kernels::cuda
