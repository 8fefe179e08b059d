#include "kernels/cuda/math.cuh"
#include "kernels/cuda/ops.hpp"
#include "kernels/cuda/short_conv_config.hpp"

namespace weir::kernels::cuda {

namespace {

template <int Width>
struct lanes_of {
  float v[Width];
};

template <int Width>
__device__ inline lanes_of<Width> load(const float* from) {
  lanes_of<Width> out;
  if constexpr (Width == 4) {
    const float4 all = *reinterpret_cast<const float4*>(from);
    out.v[0] = all.x;
    out.v[1] = all.y;
    out.v[2] = all.z;
    out.v[3] = all.w;
  } else {
    out.v[0] = *from;
  }
  return out;
}

template <int Width>
__device__ inline void store(float* to, const lanes_of<Width>& value) {
  if constexpr (Width == 4) {
    *reinterpret_cast<float4*>(to) = make_float4(value.v[0], value.v[1], value.v[2], value.v[3]);
  } else {
    *to = value.v[0];
  }
}

// The input `back` tokens before token `token` of the range at these channels.
template <int Width>
__device__ inline lanes_of<Width> input(const short_conv_params<float>& p, const sequence_range& seq,
                                        std::int32_t token, std::int32_t back, std::int32_t channel) {
  if (back <= token) {
    return load<Width>(p.x + static_cast<std::int64_t>(seq.row + token - back) * p.channels + channel);
  }
  if (seq.position == 0) return lanes_of<Width>{};
  const std::int64_t tail = p.taps - 1 - (back - token);
  return load<Width>(p.state + seq.slot * p.slot_stride + tail * p.channels + channel);
}

template <int Width>
__device__ inline void convolve(const short_conv_params<float>& p, const sequence_range& seq,
                                std::int32_t token, std::int32_t channel) {
  lanes_of<Width> sum{};
  for (std::int32_t tap = 0; tap < p.taps; ++tap) {
    const auto x = input<Width>(p, seq, token, p.taps - 1 - tap, channel);
    const auto weight = load<Width>(p.weight + static_cast<std::int64_t>(tap) * p.channels + channel);
    for (int i = 0; i < Width; ++i) sum.v[i] += weight.v[i] * x.v[i];
  }
  for (int i = 0; i < Width; ++i) sum.v[i] = silu(sum.v[i]);
  store<Width>(p.y + static_cast<std::int64_t>(seq.row + token) * p.channels + channel, sum);
}

// Oldest first: what a step reads of the old tail lies behind what the steps before it wrote.
template <int Width>
__device__ inline void update_tail(const short_conv_params<float>& p, const sequence_range& seq,
                                   std::int32_t channel) {
  float* tail = p.state + seq.slot * p.slot_stride + channel;
  for (std::int32_t i = 0; i < p.taps - 1; ++i) {
    const auto x = input<Width>(p, seq, seq.count - 1, p.taps - 2 - i, channel);
    store<Width>(tail + static_cast<std::int64_t>(i) * p.channels, x);
  }
}

// Rows [blockIdx.x * rows, + rows) without those that belong to a sequence's first thread elsewhere.
template <int Width>
__global__ void __launch_bounds__(k_conv_threads)
    convolve_rows(short_conv_params<float> p, std::int32_t rows) {
  const auto column = static_cast<std::int32_t>(blockIdx.y * k_conv_threads + threadIdx.x);
  const std::int32_t channel = column * Width;
  if (channel >= p.channels) return;
  const std::int32_t begin = static_cast<std::int32_t>(blockIdx.x) * rows;
  const std::int32_t end = min(begin + rows, p.batch.row_count);
  std::int32_t row = begin;
  while (row < end) {
    const sequence_range seq = p.batch.sequences[p.batch.row_sequence[row]];
    const std::int32_t first = row - seq.row;
    const std::int32_t old_reads = min(p.taps - 1, seq.count);  // tokens that read the old tail
    if (first == 0 && p.taps > 1) {
      for (std::int32_t token = 0; token < old_reads; ++token) convolve<Width>(p, seq, token, channel);
      update_tail<Width>(p, seq, channel);
    }
    const std::int32_t until = min(end - seq.row, seq.count);
    for (std::int32_t token = max(first, old_reads); token < until; ++token) {
      convolve<Width>(p, seq, token, channel);
    }
    row = seq.row + until;
  }
}

}  // namespace

void short_conv(const short_conv_params<float>& p, const context& ctx) {
  const bool wide = p.channels % 4 == 0 && p.slot_stride % 4 == 0 && aligned16(p.x, p.weight, p.state, p.y);
  const std::int32_t width = wide ? 4 : 1;
  launch(wide ? convolve_rows<4> : convolve_rows<1>, conv_shape(p.batch.row_count, p.channels, width),
         ctx.stream, p, conv_rows(p.batch.row_count, p.channels, width));
}

}  // namespace weir::kernels::cuda
