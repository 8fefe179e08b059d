// The two ways of multiplying tokens by weights on tensor cores, as parts of kernels: `narrow` for so few
// tokens that reading the weights is all that counts, `wide` where tokens are many. Sums of a warp are row
// tiles by token tiles of four: lane l has rows l / 4 and l / 4 + 8 at tokens 2 (l % 4) and the next.
#pragma once

#include "kernels/cuda/weights.cuh"

namespace weir::kernels::cuda {

// Depth units first, first + stride, ... of tokens that lie in memory as float32: of token tile i, this lane
// reads tokens[i] (null: none), and only the first `tiles` tiles are there.
template <dtype Type, int Parts, int RowTiles, int TokenTiles>
__device__ inline void multiply_narrow(float (&sums)[RowTiles][TokenTiles][4],
                                       const weight_row (&rows)[RowTiles][2],
                                       const float* const (&tokens)[TokenTiles], int tiles, int cols,
                                       int first, int stride) {
  using unit_type = weight_unit<Type>;
  const int units = (cols + unit_type::k_depth - 1) / unit_type::k_depth;
  const int quad = lane_index() % 4;
  unit_type ring[unit_type::k_ring][RowTiles][2];
  const auto load = [&](unit_type(&into)[RowTiles][2], int unit) {
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) {
      into[r][0].load(rows[r][0], unit, cols);
      into[r][1].load(rows[r][1], unit, cols);
    }
  };
#pragma unroll
  for (int i = 0; i < unit_type::k_ring; ++i) load(ring[i], first + i * stride);
  for (int base = first; base < units; base += unit_type::k_ring * stride) {
#pragma unroll
    for (int i = 0; i < unit_type::k_ring; ++i) {
      const int unit = base + i * stride;
      if (unit >= units) break;
#pragma unroll
      for (int step = 0; step < unit_type::k_steps; ++step) {
        uint4 weights[RowTiles][2];
#pragma unroll
        for (int r = 0; r < RowTiles; ++r) {
          weights[r][0] = ring[i][r][0].step(step);
          weights[r][1] = ring[i][r][1].step(step);
        }
#pragma unroll
        for (int t = 0; t < TokenTiles; ++t) {
          if (t >= tiles) break;
          uint4 parts[Parts];
          load_activations<Type, Parts>(parts, tokens[t], unit, step, quad, cols);
#pragma unroll
          for (int r = 0; r < RowTiles * Parts; ++r) {
            multiply_step(sums[r / Parts][t], weights[r / Parts][0], weights[r / Parts][1], parts[r % Parts]);
          }
        }
      }
      load(ring[i], unit + unit_type::k_ring * stride);
    }
  }
}

// Adds up what the `slices` consecutive warps of a group have, in their order. The first of them has the sum,
// and is told so. A barrier: all threads of the block.
template <int RowTiles, int TokenTiles>
__device__ inline bool add_slices(float (&sums)[RowTiles][TokenTiles][4], int slices) {
  auto* shown = dynamic_shared<float>();  // [warps, RowTiles, TokenTiles, 4, lanes]
  constexpr int k_values = RowTiles * TokenTiles * 4;
  const int slice = warp_index() % slices;
  float* const mine = shown + warp_index() * k_values * k_warp + lane_index();
  if (slice != 0) {
    for (int i = 0; i < k_values; ++i) {
      mine[i * k_warp] = sums[i / 4 / TokenTiles][i / 4 % TokenTiles][i % 4];
    }
  }
  __syncthreads();
  if (slice != 0) return false;
  for (int other = 1; other < slices; ++other) {
    for (int i = 0; i < k_values; ++i) {
      sums[i / 4 / TokenTiles][i / 4 % TokenTiles][i % 4] += mine[(other * k_values + i) * k_warp];
    }
  }
  return true;
}

// Activations as bf16 in the order of packed_index, one plane per part: [parts][rows][pitch].
struct packed_rows {
  const std::uint16_t* data;
  std::int64_t part_stride;
  std::int64_t pitch;
};

// A stage of tokens in shared memory: [parts][tokens][k_stage_depth] of bf16. Of sixteen chunks of a token,
// odd tokens have the halves of each eight exchanged, so that the eight lanes that read at a time find
// different banks.
__device__ inline int staged_chunk(int token, int chunk) {
  return token * (k_stage_depth / 8) + (chunk ^ (token % 2 * 4));
}

// Starts the copies of one stage of the tokens row_of[0..count) of `from`; of none behind the last stage.
template <int Parts, int TokenTiles>
__device__ inline void fetch_stage(uint4* stages, int stage, int stage_count, const packed_rows& from,
                                   const std::int32_t* row_of, int count) {
  constexpr int k_tokens = TokenTiles * k_token_tile;
  constexpr int k_chunks = k_stage_depth / 8;
  if (stage < stage_count) {
    uint4* const into = stages + stage % k_stages * (Parts * k_tokens * k_chunks);
    for (int i = static_cast<int>(threadIdx.x); i < Parts * k_tokens * k_chunks; i += k_product_threads) {
      const int token = i / k_chunks % k_tokens;
      const int part = i / k_chunks / k_tokens;
      const bool there = token < count;
      const std::uint16_t* source = from.data + part * from.part_stride + stage * k_stage_depth +
                                    (there ? row_of[token] : 0) * from.pitch + i % k_chunks * 8;
      copy_async16(into + part * k_tokens * k_chunks + staged_chunk(token, i % k_chunks), source, there);
    }
  }
  commit_copies();
}

// One step of depth of a stage.
template <int Parts, int TokenTiles>
__device__ inline void multiply_staged(float (&sums)[k_wide_row_tiles][TokenTiles][4],
                                       const uint4 (&weights)[k_wide_row_tiles][2], const uint4* tokens,
                                       int step, int count) {
  constexpr int k_plane = TokenTiles * k_token_tile * (k_stage_depth / 8);
#pragma unroll
  for (int t = 0; t < TokenTiles; ++t) {
    if (t * k_token_tile >= count) break;
    const int at = staged_chunk(t * k_token_tile + lane_index() / 4, step * 4 + lane_index() % 4);
#pragma unroll
    for (int part = 0; part < Parts; ++part) {
      const uint4 chunk = tokens[part * k_plane + at];
#pragma unroll
      for (int r = 0; r < k_wide_row_tiles; ++r) {
        multiply_step(sums[r][t], weights[r][0], weights[r][1], chunk);
      }
    }
  }
}

// All of the depth of `count` tokens, rows row_of[0..] of `from` (in shared memory, written before a barrier
// that is still to come). All threads of the block.
template <dtype Type, int Parts, int TokenTiles>
__device__ inline void multiply_wide(float (&sums)[k_wide_row_tiles][TokenTiles][4],
                                     const weight_row (&rows)[k_wide_row_tiles][2], const packed_rows& from,
                                     const std::int32_t* row_of, uint4* stages, int count, int cols) {
  using unit_type = weight_unit<Type>;
  constexpr int k_stage_chunks = Parts * TokenTiles * k_token_tile * (k_stage_depth / 8);
  const int stage_count = (cols + k_stage_depth - 1) / k_stage_depth;
  __syncthreads();
  for (int stage = 0; stage < k_stages - 1; ++stage) {
    fetch_stage<Parts, TokenTiles>(stages, stage, stage_count, from, row_of, count);
  }
  unit_type next[k_wide_row_tiles][2];
  unit_type now[k_wide_row_tiles][2];
  const auto load = [&](int unit) {
#pragma unroll
    for (int r = 0; r < k_wide_row_tiles; ++r) {
      next[r][0].load(rows[r][0], unit, cols);
      next[r][1].load(rows[r][1], unit, cols);
    }
  };
  load(0);
  int unit = 0;
  for (int stage = 0; stage < stage_count; ++stage) {
    wait_copies<k_stages - 2>();
    __syncthreads();
    fetch_stage<Parts, TokenTiles>(stages, stage + k_stages - 1, stage_count, from, row_of, count);
#pragma unroll
    for (int step = 0; step < k_stage_depth / k_step_depth; ++step) {
      uint4 weights[k_wide_row_tiles][2];
      if (step % unit_type::k_steps == 0) {
#pragma unroll
        for (int r = 0; r < k_wide_row_tiles; ++r) now[r][0] = next[r][0], now[r][1] = next[r][1];
        load(++unit);
      }
#pragma unroll
      for (int r = 0; r < k_wide_row_tiles; ++r) {
        weights[r][0] = now[r][0].step(step % unit_type::k_steps);
        weights[r][1] = now[r][1].step(step % unit_type::k_steps);
      }
      multiply_staged<Parts, TokenTiles>(sums, weights, stages + stage % k_stages * k_stage_chunks, step,
                                         count);
    }
  }
}

}  // namespace weir::kernels::cuda
