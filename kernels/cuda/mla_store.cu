#include "kernels/cuda/device.cuh"
#include "kernels/cuda/gather_config.hpp"
#include "kernels/cuda/ops.hpp"

namespace weir::kernels::cuda {

namespace {

// In the format of the page.
template <class Stored>
__device__ inline void store_one(Stored* to, float value) {
  if constexpr (sizeof(Stored) == sizeof(float)) {
    *to = value;
  } else {
    *to = to_bf16(value);
  }
}

// Stored is float or the bits of bf16.
template <class Stored, bool Wide>
__global__ void __launch_bounds__(k_row_threads) store_rows(mla_store_params<float> p, std::int32_t parts) {
  const auto row = static_cast<std::int32_t>(blockIdx.x / static_cast<unsigned>(parts));
  const auto part = static_cast<std::int32_t>(blockIdx.x % static_cast<unsigned>(parts));
  const auto me = static_cast<std::int32_t>(threadIdx.x);
  const std::int32_t sequence = p.batch.row_sequence[row];
  const sequence_range seq = p.batch.sequences[sequence];
  const std::int32_t position = seq.position + row - seq.row;
  const std::int64_t entry = static_cast<std::int64_t>(sequence) * p.batch.table_stride;
  const std::int64_t page = p.batch.block_table[entry + position / p.page_tokens];
  const std::int64_t token = position % p.page_tokens;
  const float* from = p.latents + static_cast<std::int64_t>(row) * p.width;
  Stored* to = static_cast<Stored*>(p.pages) + page * p.page_stride + token * p.width;
  if constexpr (Wide) {
    const std::int32_t i = part * k_row_part + 4 * me;
    if (i >= p.width) return;
    const float4 v = *reinterpret_cast<const float4*>(from + i);
    if constexpr (sizeof(Stored) == sizeof(float)) {
      *reinterpret_cast<float4*>(to + i) = v;
    } else {
      *reinterpret_cast<uint2*>(to + i) = make_uint2(pack_bf16(v.x, v.y), pack_bf16(v.z, v.w));
    }
  } else {
    const std::int32_t end = min((part + 1) * k_row_part, p.width);
    for (std::int32_t i = part * k_row_part + me; i < end; i += k_row_threads) store_one(to + i, from[i]);
  }
}

template <class Stored>
void run(const mla_store_params<float>& p, const context& ctx) {
  const bool wide = p.width % 4 == 0 && p.page_stride % 4 == 0 && aligned16(p.latents, p.pages);
  launch(wide ? store_rows<Stored, true> : store_rows<Stored, false>,
         row_part_shape(p.batch.row_count, p.width), ctx.stream, p, row_parts(p.width));
}

}  // namespace

void mla_store(const mla_store_params<float>& p, const context& ctx) {
  if (p.format == latent_format::bf16) {
    run<std::uint16_t>(p, ctx);
  } else {
    run<float>(p, ctx);
  }
}

}  // namespace weir::kernels::cuda
