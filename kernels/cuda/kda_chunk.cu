#include "kernels/cuda/kda_chunk.cuh"
#include "kernels/cuda/kda_prepare.cuh"

namespace weir::kernels::cuda {

namespace {

constexpr int k_key_tiles = k_kda_chunk_dim / 8;
constexpr int k_turn_barrier = 2;
static_assert(k_turn_barrier != k_prepare_barrier);

// Both kinds of warps come here from code of their own, which __syncthreads does not allow.
__device__ inline void all_warps() {
  named_barrier(k_turn_barrier, k_kda_chunk_threads);
}

// Sᵀ of a warp's sixteen values: a tile is eight keys; its rows are values, in the layout of accumulators.
struct state_tiles {
  float s[k_key_tiles][4];
};

// Element i of key tile n: where it lies in the head's state.
__device__ inline std::int64_t state_at(int value, int n, int i) {
  const int key = 8 * n + lane_index() % 4 * 2 + i % 2;
  return static_cast<std::int64_t>(key) * k_kda_chunk_dim + value + lane_index() / 4 + i / 2 * 8;
}

// Keys 16 step .. + 15 of Sᵀ as a left operand.
__device__ inline void state_operand(std::uint32_t (&out)[2][4], const state_tiles& state, int step) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float* tile = state.s[2 * step + i / 2];
    const bf16_halves both = split(tile[i % 2 * 2], tile[i % 2 * 2 + 1]);
    out[0][i] = both.high;
    out[1][i] = both.low;
  }
}

// The lane's row of four tiles in a 16x16 square at column `col` of rows that are tokens: rows 0-7 left, 0-7
// right, 8-15 left, 8-15 right. They are the right operand of two tiles of eight tokens.
template <int Stride>
__device__ inline const std::uint16_t* token_row(const std::uint16_t (&rows)[k_kda_chunk][Stride], int col) {
  const int lane = lane_index();
  return &rows[lane % 8 + lane / 16 * 8][col + lane / 8 % 2 * 8];
}

// The same square transposed, where tokens are the depth: 0-7 left, 8-15 left, 0-7 right, 8-15 right.
template <int Stride>
__device__ inline const std::uint16_t* depth_row(const std::uint16_t (&rows)[k_kda_chunk][Stride], int col) {
  const int lane = lane_index();
  return &rows[lane % 16][col + lane / 16 * 8];
}

// sum[n] += a times the tokens 8n..8n+7 of the square at `col`.
template <int Stride>
__device__ inline void multiply_tokens(tile_sum (&sum)[2], const std::uint32_t (&a)[2][4],
                                       const std::uint16_t (&rows)[2][k_kda_chunk][Stride], int col) {
  std::uint32_t high[4], low[4];
  load_tiles(high, token_row(rows[0], col));
  load_tiles(low, token_row(rows[1], col));
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    multiply(sum[n], a, {high[2 * n], high[2 * n + 1]}, {low[2 * n], low[2 * n + 1]});
  }
}

// S <- E(end, start) S + (k E(end, .))ᵀ v', transposed; `update` is v'ᵀ as a left operand.
__device__ inline void update_state(state_tiles& state, const chunk_operands& in,
                                    const std::uint32_t (&update)[2][4]) {
#pragma unroll
  for (int n = 0; n < k_key_tiles; n += 2) {
    std::uint32_t high[4], low[4];
    load_tiles_transposed(high, depth_row(in.k[0], 8 * n));
    load_tiles_transposed(low, depth_row(in.k[1], 8 * n));
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      float(&s)[4] = state.s[n + m];
      const float2 decay = *reinterpret_cast<const float2*>(&in.decay[8 * (n + m) + lane_index() % 4 * 2]);
      s[0] *= decay.x;
      s[1] *= decay.y;
      s[2] *= decay.x;
      s[3] *= decay.y;
      mma_bf16(s, update[0], {low[2 * m], low[2 * m + 1]});
      mma_bf16(s, update[1], {high[2 * m], high[2 * m + 1]});
      mma_bf16(s, update[0], {high[2 * m], high[2 * m + 1]});
    }
  }
}

// A prepared chunk through the sixteen values of a warp from place.value + value on; `left` tokens are there.
__device__ inline void advance(state_tiles& state, const chunk_operands& in, const kda_params<float>& p,
                               const chunk_place& place, std::int32_t first, int value) {
  tile_sum read[2], out[2];  // S^T wᵀ and Sᵀ(q E)ᵀ, tokens 8n..8n+7 each
#pragma unroll
  for (int step = 0; step < k_key_tiles / 2; ++step) {
    std::uint32_t keys[2][4];
    state_operand(keys, state, step);
    multiply_tokens(read, keys, in.w, 16 * step);
    multiply_tokens(out, keys, in.q, 16 * step);
  }
  const int row = lane_index() / 4, col = lane_index() % 4 * 2;
  std::uint32_t update[2][4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int n = i / 2, lower = i % 2;  // tokens 8n + col + {0, 1}, value row + 8 lower
    const int at = value + row + 8 * lower, token = 8 * n + col;
    const bf16_halves both =
        split(in.u[token][at] - read[n].value(2 * lower), in.u[token + 1][at] - read[n].value(2 * lower + 1));
    update[0][i] = both.high;
    update[1][i] = both.low;
  }
  multiply_tokens(out, update, in.p, 0);
  update_state(state, in, update);
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::int32_t token = first + 8 * n + col + i % 2;
      if (token >= place.seq.count) continue;
      p.o[place.cell(token, p.heads) * k_kda_chunk_dim + place.value + value + row + i / 2 * 8] =
          out[n].value(i);
    }
  }
}

__device__ inline void bring_through_state(const kda_params<float>& p, const chunk_memory& memory,
                                           const chunk_place& place) {
  const int value = 16 * warp_index();
  float* const at = p.state + place.seq.slot * p.slot_stride +
                    static_cast<std::int64_t>(place.head) * k_kda_chunk_dim * k_kda_chunk_dim;
  state_tiles state;
#pragma unroll
  for (int n = 0; n < k_key_tiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      state.s[n][i] = place.seq.position == 0 ? 0.0F : at[state_at(place.value + value, n, i)];
    }
  }
  all_warps();
  int turn = 0;
  for (std::int32_t first = 0; first < place.seq.count; first += k_kda_chunk, turn ^= 1) {
    advance(state, memory.operands[turn], p, place, first, value);
    all_warps();
  }
#pragma unroll
  for (int n = 0; n < k_key_tiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) at[state_at(place.value + value, n, i)] = state.s[n][i];
  }
}

// One chunk ahead of the others: as many barriers as they pass.
__device__ inline void prepare_all(const kda_params<float>& p, chunk_memory& memory,
                                   const chunk_place& place) {
  const int thread = static_cast<int>(threadIdx.x) - k_kda_state_warps * k_warp;
  chunk_inputs keys = read_inputs(p, place, 0, thread);
  int turn = 0;
  for (std::int32_t first = 0; first < place.seq.count; first += k_kda_chunk, turn ^= 1) {
    prepare_chunk(memory, memory.operands[turn], keys, p, place, first, thread);
    all_warps();
  }
  all_warps();
}

__global__ void __launch_bounds__(k_kda_chunk_threads, 1) run_chunks(kda_params<float> p) {
  chunk_memory& memory = *dynamic_shared<chunk_memory>();
  const unsigned block = blockIdx.x / k_kda_chunk_parts;
  const chunk_place place{p.batch.sequences[block / static_cast<unsigned>(p.heads)],
                          static_cast<std::int32_t>(block % static_cast<unsigned>(p.heads)),
                          static_cast<std::int32_t>(blockIdx.x % k_kda_chunk_parts) * k_kda_chunk_values};
  if (place.seq.count < k_kda_chunk_count_min) return;
  if (warp_index() < k_kda_state_warps) {
    bring_through_state(p, memory, place);
  } else {
    prepare_all(p, memory, place);
  }
}

}  // namespace

void kda_chunks(const kda_params<float>& p, const context& ctx) {
  launch(run_chunks, kda_chunk_shape(p.batch.sequence_count, p.heads), ctx.stream, p);
}

}  // namespace weir::kernels::cuda
