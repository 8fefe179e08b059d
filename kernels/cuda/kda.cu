#include "kernels/cuda/device.cuh"
#include "kernels/cuda/kda_chunk.hpp"
#include "kernels/cuda/kda_config.hpp"
#include "kernels/cuda/ops.hpp"

namespace weir::kernels::cuda {

namespace {

__device__ inline float4 scaled(const float4& x, float by) {
  return make_float4(x.x * by, x.y * by, x.z * by, x.w * by);
}
__device__ inline void add_scaled(float4& sum, const float4& x, float by) {
  sum = make_float4(sum.x + x.x * by, sum.y + x.y * by, sum.z + x.z * by, sum.w + x.w * by);
}
__device__ inline float4 sum_over_rows(float4 x) {
  for (int step = k_kda_quads; step < k_warp; step *= 2) {
    x.x += __shfl_xor_sync(k_all_lanes, x.x, step);
    x.y += __shfl_xor_sync(k_all_lanes, x.y, step);
    x.z += __shfl_xor_sync(k_all_lanes, x.z, step);
    x.w += __shfl_xor_sync(k_all_lanes, x.w, step);
  }
  return x;
}

// What a token brings to a block of the fast kernel: a thread's value of q, k and g, its columns of v.
struct token_inputs {
  float q, k, g, beta;
  float4 v;
};

__device__ inline token_inputs read_token(const kda_params<float>& p, std::int64_t row, std::int32_t head,
                                          std::int32_t column) {
  const std::int64_t cell = row * p.heads + head;
  const std::int64_t at = cell * k_kda_fast_dim + threadIdx.x;
  return {p.q[at], p.k[at], p.g[at], p.beta[cell],
          *reinterpret_cast<const float4*>(p.v + cell * k_kda_fast_dim + column)};
}

// Shared memory of the fast kernel. Inputs alternate: a token's are written while the slowest thread still
// updates the state with the ones before.
struct fast_memory {
  float q[2][k_kda_fast_dim], k[2][k_kda_fast_dim], decay[2][k_kda_fast_dim];
  float4 read[k_kda_threads / k_warp][k_kda_quads], out[k_kda_threads / k_warp][k_kda_quads];
};

// One token: o comes from the state before the update, as Sᵀq + (k·q) u, so that one sum over the block does.
__device__ inline void advance(float4 (&state)[k_kda_rows_kept], fast_memory& memory, int turn,
                               const token_inputs& in, float* o) {
  const auto me = static_cast<int>(threadIdx.x);
  const int quad = me % k_kda_quads, group = me / k_kda_quads;
  const float *q = memory.q[turn], *k = memory.k[turn], *decay = memory.decay[turn];
  memory.q[turn][me] = in.q;
  memory.k[turn][me] = in.k;
  memory.decay[turn][me] = expf(in.g);
  __syncthreads();
  float4 read = make_float4(0.0F, 0.0F, 0.0F, 0.0F), out = read;
#pragma unroll
  for (int n = 0; n < k_kda_rows_kept; ++n) {
    const int row = group + n * k_kda_groups;
    state[n] = scaled(state[n], decay[row]);
    add_scaled(read, state[n], k[row]);
    add_scaled(out, state[n], q[row]);
  }
  float both = 0.0F;  // k·q
  for (int i = lane_index(); i < k_kda_fast_dim; i += k_warp) both += k[i] * q[i];
  both = warp_sum(both);
  read = sum_over_rows(read);
  out = sum_over_rows(out);
  if (lane_index() < k_kda_quads) {
    memory.read[warp_index()][quad] = read;
    memory.out[warp_index()][quad] = out;
  }
  __syncthreads();
  read = memory.read[0][quad];
  out = memory.out[0][quad];
  for (int warp = 1; warp < k_kda_threads / k_warp; ++warp) {
    add_scaled(read, memory.read[warp][quad], 1.0F);
    add_scaled(out, memory.out[warp][quad], 1.0F);
  }
  const float4 update =
      scaled(make_float4(in.v.x - read.x, in.v.y - read.y, in.v.z - read.z, in.v.w - read.w), in.beta);
#pragma unroll
  for (int n = 0; n < k_kda_rows_kept; ++n) add_scaled(state[n], update, k[group + n * k_kda_groups]);
  add_scaled(out, update, both);
  if (group == 0) *reinterpret_cast<float4*>(o) = out;
}

// A sequence's tokens through k_kda_columns columns of a head, which stay in registers meanwhile.
__global__ void __launch_bounds__(k_kda_threads, k_kda_blocks)
    recur_fast(kda_params<float> p, std::int32_t count_max) {
  __shared__ fast_memory memory;
  const auto part = static_cast<std::int32_t>(blockIdx.x % k_kda_parts);
  const auto head = static_cast<std::int32_t>(blockIdx.x / k_kda_parts % static_cast<unsigned>(p.heads));
  const sequence_range seq = p.batch.sequences[blockIdx.x / k_kda_parts / static_cast<unsigned>(p.heads)];
  if (seq.count > count_max) return;
  const auto me = static_cast<std::int32_t>(threadIdx.x);
  const std::int32_t column = part * k_kda_columns + me % k_kda_quads * 4;
  float* const at = p.state + seq.slot * p.slot_stride +
                    (static_cast<std::int64_t>(head) * k_kda_fast_dim + me / k_kda_quads) * k_kda_fast_dim +
                    column;
  float4 state[k_kda_rows_kept];
#pragma unroll
  for (int n = 0; n < k_kda_rows_kept; ++n) {
    state[n] = seq.position == 0 ? make_float4(0.0F, 0.0F, 0.0F, 0.0F)
                                 : *reinterpret_cast<const float4*>(at + n * k_kda_groups * k_kda_fast_dim);
  }
  token_inputs next = read_token(p, seq.row, head, column);
  for (std::int32_t token = 0; token < seq.count; ++token) {
    const token_inputs in = next;
    const std::int64_t row = seq.row + token;
    if (token + 1 < seq.count) next = read_token(p, row + 1, head, column);
    advance(state, memory, token % 2, in, p.o + (row * p.heads + head) * k_kda_fast_dim + column);
  }
#pragma unroll
  for (int n = 0; n < k_kda_rows_kept; ++n) {
    *reinterpret_cast<float4*>(at + n * k_kda_groups * k_kda_fast_dim) = state[n];
  }
}

// Any head dim: the same with the columns in shared memory, a lane for each.
__global__ void __launch_bounds__(k_kda_any_warps* k_warp) recur_any(kda_params<float> p) {
  const std::int32_t dim = p.dim;
  const auto parts = static_cast<unsigned>(kda_any_parts(dim));
  const auto head = static_cast<std::int32_t>(blockIdx.x / parts % static_cast<unsigned>(p.heads));
  const sequence_range seq = p.batch.sequences[blockIdx.x / parts / static_cast<unsigned>(p.heads)];
  const int lane = lane_index(), warp = warp_index();
  const std::int32_t column = static_cast<std::int32_t>(blockIdx.x % parts) * k_kda_columns + lane;
  const bool there = column < dim;
  float* const state = dynamic_shared<float>();  // [dim, k_kda_columns]
  float* const q = state + dim * k_kda_columns;
  float* const k = q + dim;
  float* const decay = k + dim;
  float* const sums = decay + dim;  // [2, warps, columns]
  float* const at = p.state + seq.slot * p.slot_stride + static_cast<std::int64_t>(head) * dim * dim + column;
  for (std::int32_t i = warp; i < dim; i += k_kda_any_warps) {
    state[i * k_kda_columns + lane] =
        there && seq.position != 0 ? at[static_cast<std::int64_t>(i) * dim] : 0.0F;
  }
  for (std::int32_t token = 0; token < seq.count; ++token) {
    const std::int64_t cell = static_cast<std::int64_t>(seq.row + token) * p.heads + head;
    for (auto i = static_cast<std::int32_t>(threadIdx.x); i < dim; i += k_kda_any_warps * k_warp) {
      q[i] = p.q[cell * dim + i];
      k[i] = p.k[cell * dim + i];
      decay[i] = expf(p.g[cell * dim + i]);
    }
    __syncthreads();
    float read = 0.0F, out = 0.0F, both = 0.0F;
    for (std::int32_t i = warp; i < dim; i += k_kda_any_warps) {
      const float value = state[i * k_kda_columns + lane] *= decay[i];
      read += value * k[i];
      out += value * q[i];
    }
    for (std::int32_t i = lane; i < dim; i += k_warp) both += k[i] * q[i];
    both = warp_sum(both);
    sums[warp * k_kda_columns + lane] = read;
    sums[(k_kda_any_warps + warp) * k_kda_columns + lane] = out;
    __syncthreads();
    read = out = 0.0F;
    for (int other = 0; other < k_kda_any_warps; ++other) {
      read += sums[other * k_kda_columns + lane];
      out += sums[(k_kda_any_warps + other) * k_kda_columns + lane];
    }
    const float update = there ? p.beta[cell] * (p.v[cell * dim + column] - read) : 0.0F;
    for (std::int32_t i = warp; i < dim; i += k_kda_any_warps) {
      state[i * k_kda_columns + lane] += k[i] * update;
    }
    if (there && warp == 0) p.o[cell * dim + column] = out + both * update;
    __syncthreads();
  }
  for (std::int32_t i = warp; there && i < dim; i += k_kda_any_warps) {
    at[static_cast<std::int64_t>(i) * dim] = state[i * k_kda_columns + lane];
  }
}

}  // namespace

// Which way a sequence goes depends on its own count alone.
void kda(const kda_params<float>& p, const context& ctx) {
  const bool fast =
      p.dim == k_kda_fast_dim && p.slot_stride % 4 == 0 && aligned16(p.q, p.k, p.v, p.g, p.state, p.o);
  if (!fast) {
    launch(recur_any, kda_any_shape(p.batch.sequence_count, p.heads, p.dim), ctx.stream, p);
    return;
  }
  launch(recur_fast, kda_fast_shape(p.batch.sequence_count, p.heads), ctx.stream, p,
         k_kda_chunk_count_min - 1);
  if (p.batch.count_max >= k_kda_chunk_count_min) kda_chunks(p, ctx);
}

}  // namespace weir::kernels::cuda
