// The preparation of a chunk by eight warps: from q, k, v, g and beta of sixteen tokens to chunk_operands.
//
// A lane holds, of two tokens (lane / 4 and that + 8), the four keys of a tensor-core operand; the warps
// share the keys. E(i, j) is found level by level: at level h (1, 2, 4, 8) tokens i and j lie in the upper
// and the lower half of a group of 2h, and E(i, j) is the product of what decays from the middle to i and
// from j to the middle. Scaled by those, a product of keys with keys gives A for all pairs of the level.
#pragma once

#include "kernels/cuda/kda_chunk.cuh"

namespace weir::kernels::cuda {

inline constexpr int k_prepare_barrier = 1;

// A thread's share of a chunk: [token half][key], and the beta of the token that is its own, if any.
struct chunk_inputs {
  float q[2][4], k[2][4], g[2][4];
  float beta;
};

// Tokens from `count` on are as if nothing was there: no decay, no key.
__device__ inline chunk_inputs read_inputs(const kda_params<float>& p, const chunk_place& place,
                                           std::int32_t first, int thread) {
  chunk_inputs out{};
  const int lane = thread % k_warp, keys = 16 * (thread / k_warp);
  if (thread < k_kda_chunk && first + thread < place.seq.count) {
    out.beta = p.beta[place.cell(first + thread, p.heads)];
  }
  for (int half = 0; half < 2; ++half) {
    const std::int32_t token = first + lane / 4 + 8 * half;
    if (token >= place.seq.count) continue;
    const std::int64_t at = place.cell(token, p.heads) * k_kda_chunk_dim + keys + lane % 4 * 2;
    for (int pair = 0; pair < 2; ++pair) {
      const float2 q = *reinterpret_cast<const float2*>(p.q + at + 8 * pair);
      const float2 k = *reinterpret_cast<const float2*>(p.k + at + 8 * pair);
      const float2 g = *reinterpret_cast<const float2*>(p.g + at + 8 * pair);
      out.q[half][2 * pair] = q.x;
      out.q[half][2 * pair + 1] = q.y;
      out.k[half][2 * pair] = k.x;
      out.k[half][2 * pair + 1] = k.y;
      out.g[half][2 * pair] = g.x;
      out.g[half][2 * pair + 1] = g.y;
    }
  }
  return out;
}

// What decays within a token's group: to the group's start (this token included), to its end (not), over all.
struct group_decay {
  float before[2][4], after[2][4], all[2][4];
};

// x * factor as the left operand of a product; its registers are a right operand too: tokens lane / 4 as
// columns {0, 2}, those + 8 {1, 3}.
__device__ inline void scaled_operand(std::uint32_t (&out)[2][4], const float (&x)[2][4],
                                      const float (&factor)[2][4]) {
  for (int i = 0; i < 4; ++i) {
    const int half = i % 2, pair = i / 2 * 2;
    const bf16_halves both =
        split(x[half][pair] * factor[half][pair], x[half][pair + 1] * factor[half][pair + 1]);
    out[0][i] = both.high;
    out[1][i] = both.low;
  }
}

// The sums over this warp's keys for pairs of the level, put where they belong: tile n are columns 8n..8n+7.
template <int Level>
__device__ inline void multiply_level(float (&a)[2][4], float (&p)[2][4], const chunk_inputs& in,
                                      const group_decay& decay) {
  const int token = lane_index() / 4;
  float factor[2][4];
  for (int half = 0; half < 2; ++half) {
    const bool upper = Level == 8 ? half == 1 : (token & Level) != 0;
    for (int i = 0; i < 4; ++i) factor[half][i] = upper ? decay.before[half][i] : decay.after[half][i];
  }
  std::uint32_t keys[2][4], queries[2][4];
  scaled_operand(keys, in.k, factor);
  scaled_operand(queries, in.q, factor);
#pragma unroll
  for (int tile = 0; tile < (Level == 8 ? 1 : 2); ++tile) {
    const std::uint32_t high[2] = {keys[0][tile], keys[0][tile + 2]};
    const std::uint32_t low[2] = {keys[1][tile], keys[1][tile + 2]};
    tile_sum sum_a, sum_p;
    multiply(sum_a, keys, high, low);
    multiply(sum_p, queries, high, low);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = token + i / 2 * 8;
      const int col = tile * 8 + lane_index() % 4 * 2 + i % 2;
      const int differs = row ^ col;
      if (row > col && differs >= Level && differs < 2 * Level) {
        a[tile][i] = sum_a.value(i);
        p[tile][i] = sum_p.value(i);
      }
    }
  }
}

// Groups of Level become groups of 2 Level.
template <int Level>
__device__ inline void join_groups(group_decay& decay) {
  const int token = lane_index() / 4;
  float sibling[2][4];
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 4; ++i) {
      sibling[half][i] =
          Level == 8 ? decay.all[1 - half][i] : __shfl_xor_sync(k_all_lanes, decay.all[half][i], 4 * Level);
    }
  }
  for (int half = 0; half < 2; ++half) {
    const bool upper = Level == 8 ? half == 1 : (token & Level) != 0;
    for (int i = 0; i < 4; ++i) {
      if (upper) {
        decay.before[half][i] *= sibling[half][i];
      } else {
        decay.after[half][i] *= sibling[half][i];
      }
      decay.all[half][i] *= sibling[half][i];
    }
  }
}

// Stores x * factor of the lane's tokens and keys as halves.
__device__ inline void store_scaled(std::uint16_t (&to)[2][k_kda_chunk][k_kda_operand_stride], int keys,
                                    const float (&x)[2][4], const float (&factor)[2][4]) {
  std::uint32_t both[2][4];
  scaled_operand(both, x, factor);
  for (int i = 0; i < 4; ++i) {
    const int token = lane_index() / 4 + 8 * (i % 2);
    const int key = keys + lane_index() % 4 * 2 + i / 2 * 8;
    for (int half = 0; half < 2; ++half) {
      *reinterpret_cast<std::uint32_t*>(&to[half][token][key]) = both[half][i];
    }
  }
}

// First step, 16 keys a warp: A and P of them, and q and k with the decays to the chunk's ends.
__device__ inline void multiply_keys(chunk_memory& memory, chunk_operands& out, const chunk_inputs& in,
                                     int warp) {
  const int lane = lane_index(), keys = 16 * warp;
  group_decay decay;
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 4; ++i) {
      decay.before[half][i] = decay.all[half][i] = __expf(in.g[half][i]);
      decay.after[half][i] = 1.0F;
    }
  }
  float a[2][4] = {}, p[2][4] = {};
  multiply_level<1>(a, p, in, decay);
  join_groups<1>(decay);
  multiply_level<2>(a, p, in, decay);
  join_groups<2>(decay);
  multiply_level<4>(a, p, in, decay);
  join_groups<4>(decay);
  multiply_level<8>(a, p, in, decay);
  join_groups<8>(decay);
  store_scaled(out.q, keys, in.q, decay.before);
  store_scaled(out.k, keys, in.k, decay.after);
  for (int half = 0; half < 2; ++half) {
    const int token = lane / 4 + 8 * half;
    float diagonal = 0.0F;
    for (int i = 0; i < 4; ++i) {
      const int key = keys + lane % 4 * 2 + i % 2 + i / 2 * 8;
      memory.scratch.k[token][key] = in.k[half][i] * decay.before[half][i];
      if (token == 0) out.decay[key] = decay.all[half][i];
      diagonal += in.q[half][i] * in.k[half][i];
    }
    diagonal += __shfl_xor_sync(k_all_lanes, diagonal, 1);
    diagonal += __shfl_xor_sync(k_all_lanes, diagonal, 2);
    if (lane % 4 == 0) memory.scratch.diagonal[warp][token] = diagonal;
  }
  for (int tile = 0; tile < 2; ++tile) {
    for (int row = 0; row < 2; ++row) {
      const int token = lane / 4 + 8 * row, col = tile * 8 + lane % 4 * 2;
      auto& parts = memory.scratch.parts[warp];
      *reinterpret_cast<float2*>(&parts[0][token][col]) = make_float2(a[tile][2 * row], a[tile][2 * row + 1]);
      *reinterpret_cast<float2*>(&parts[1][token][col]) = make_float2(p[tile][2 * row], p[tile][2 * row + 1]);
    }
  }
}

// Second step, one element of A and of P a thread.
__device__ inline void sum_parts(chunk_memory& memory, chunk_operands& out, int thread) {
  const int row = thread / k_kda_chunk, col = thread % k_kda_chunk;
  chunk_scratch& scratch = memory.scratch;
  float a = 0.0F, p = 0.0F;
  for (int warp = 0; warp < k_kda_prepare_warps; ++warp) {
    a += scratch.parts[warp][0][row][col];
    p += row == col ? scratch.diagonal[warp][row] : scratch.parts[warp][1][row][col];
  }
  scratch.a[row][col] = a * scratch.beta[row];
  const bf16_halves both = split(p, 0.0F);
  out.p[0][row][col] = static_cast<std::uint16_t>(both.high);
  out.p[1][row][col] = static_cast<std::uint16_t>(both.low);
}

// Third step: x_i = beta_i right_i - sum_{j<i} A_ij x_j, one column of w or u a thread.
__device__ inline void solve_column(const chunk_scratch& scratch, float (&x)[k_kda_chunk]) {
#pragma unroll
  for (int i = 0; i < k_kda_chunk; ++i) {
    float sum = scratch.beta[i] * x[i];
#pragma unroll
    for (int j = 0; j < i; ++j) sum -= scratch.a[i][j] * x[j];
    x[i] = sum;
  }
}

__device__ inline void solve(const chunk_scratch& scratch, chunk_operands& out, int thread) {
  float x[k_kda_chunk];
  if (thread < k_kda_chunk_dim) {
#pragma unroll
    for (int i = 0; i < k_kda_chunk; ++i) x[i] = scratch.k[i][thread];
    solve_column(scratch, x);
#pragma unroll
    for (int i = 0; i < k_kda_chunk; ++i) {
      const bf16_halves both = split(x[i], 0.0F);
      out.w[0][i][thread] = static_cast<std::uint16_t>(both.high);
      out.w[1][i][thread] = static_cast<std::uint16_t>(both.low);
    }
  } else if (thread < k_kda_chunk_dim + k_kda_chunk_values) {
    const int column = thread - k_kda_chunk_dim;
#pragma unroll
    for (int i = 0; i < k_kda_chunk; ++i) x[i] = scratch.v[i][column];
    solve_column(scratch, x);
#pragma unroll
    for (int i = 0; i < k_kda_chunk; ++i) out.u[i][column] = x[i];
  }
}

// Sixteen bytes of v a thread on their way to shared memory; zeros behind the last token.
__device__ inline void copy_values(chunk_scratch& scratch, const kda_params<float>& p,
                                   const chunk_place& place, std::int32_t first, int thread) {
  constexpr int k_quads = k_kda_chunk_values / 4;
  const int token = thread / k_quads, value = thread % k_quads * 4;
  const bool there = first + token < place.seq.count;
  const float* from = p.v + place.cell(there ? first + token : 0, p.heads) * k_kda_chunk_dim;
  copy_async16(&scratch.v[token][value], from + place.value + value, there);
  commit_copies();
}

// Prepares the chunk from `first` on, whose keys are in `keys`, and leaves the next chunk's there: each read
// is under way during the step before the one that uses it.
__device__ inline void prepare_chunk(chunk_memory& memory, chunk_operands& out, chunk_inputs& keys,
                                     const kda_params<float>& p, const chunk_place& place, std::int32_t first,
                                     int thread) {
  copy_values(memory.scratch, p, place, first, thread);
  if (thread < k_kda_chunk) memory.scratch.beta[thread] = keys.beta;
  multiply_keys(memory, out, keys, thread / k_warp);
  keys = read_inputs(p, place, first + k_kda_chunk, thread);
  named_barrier(k_prepare_barrier, k_kda_prepare_threads);
  sum_parts(memory, out, thread);
  wait_copies<0>();
  named_barrier(k_prepare_barrier, k_kda_prepare_threads);
  solve(memory.scratch, out, thread);
}

}  // namespace weir::kernels::cuda
