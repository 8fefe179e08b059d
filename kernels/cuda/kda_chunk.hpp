// KDA over prompts, sixteen tokens at a time, for a head dim of 128: how a block is laid out, and its launch.
//
// A block takes 64 columns (values) of one head and all tokens of a sequence. Its last eight warps prepare a
// chunk while the first four bring the chunk before it through the state. With the tokens' log decays g,
// i > j tokens of a chunk and E(i, j) = exp(g_{j+1} + .. + g_i), key by key:
//   A_ij = beta_i k_i·(E(i,j) k_j), P_ij = q_i·(E(i,j) k_j), P_ii = q_i·k_i           preparation
//   w_i = beta_i E(i,start) k_i - sum_{j<i} A_ij w_j, u_i = beta_i v_i - sum_{j<i} A_ij u_j
//   v'= u - w S, o = (q E(.,start)) S + P v', S <- E(end,start) S + (k E(end,.))ᵀ v'  state
// E is always a product of numbers that are at most one, never a quotient or the exponential of a difference
// of sums: it is right for any decay. Products run on tensor cores over bf16 halves: a number is a sum of two
// bf16, and three of the four products are kept, which leaves 2^-16 of a term. The state's transpose lies in
// the accumulators of the warps that own it, in which shape it is both factor and sum.
#pragma once

#include "kernels/cuda/launch.hpp"
#include "kernels/params.hpp"

namespace weir::kernels::cuda {

inline constexpr std::int32_t k_kda_chunk = 16;       // tokens: rows of one tensor-core tile
inline constexpr std::int32_t k_kda_chunk_dim = 128;  // keys and values of a head
// Sequences of at least so many tokens go by chunks. Fewer go one by one: a chunk takes about as long as two.
inline constexpr std::int32_t k_kda_chunk_count_min = 16;

// Sixteen values a warp, whose 64 floats of state a lane take a third of the registers; four such warps keep
// the four tensor cores of a multiprocessor busy.
inline constexpr std::int32_t k_kda_state_warps = 4;
inline constexpr std::int32_t k_kda_chunk_values = 16 * k_kda_state_warps;
inline constexpr std::int32_t k_kda_chunk_parts = k_kda_chunk_dim / k_kda_chunk_values;
// Sixteen keys a warp: one step of a tensor-core product.
inline constexpr std::int32_t k_kda_prepare_warps = k_kda_chunk_dim / 16;
inline constexpr std::int32_t k_kda_prepare_threads = 32 * k_kda_prepare_warps;
inline constexpr std::int32_t k_kda_chunk_threads = 32 * k_kda_state_warps + k_kda_prepare_threads;

// Distances between rows in shared memory, with which rows begin in other banks: of 16-bit operands, of
// their P, of u, of sums that eight warps leave, of A and of scaled keys.
inline constexpr std::int32_t k_kda_operand_stride = k_kda_chunk_dim + 8;
inline constexpr std::int32_t k_kda_p_stride = k_kda_chunk + 8;
inline constexpr std::int32_t k_kda_u_stride = k_kda_chunk_values + 4;
inline constexpr std::int32_t k_kda_part_stride = k_kda_chunk + 8;
inline constexpr std::int32_t k_kda_a_stride = k_kda_chunk + 4;
inline constexpr std::int32_t k_kda_key_stride = k_kda_chunk_dim + 8;

inline constexpr std::size_t k_kda_operand_bytes =
    2 * k_kda_chunk * (3 * k_kda_operand_stride + k_kda_p_stride) * sizeof(std::uint16_t) +
    (k_kda_chunk * k_kda_u_stride + k_kda_chunk_dim) * sizeof(float);
inline constexpr std::size_t k_kda_scratch_bytes =
    k_kda_chunk *
    (k_kda_prepare_warps * (2 * k_kda_part_stride + 1) + k_kda_a_stride + k_kda_key_stride +
     k_kda_chunk_values + 1) *
    sizeof(float);
inline constexpr std::size_t k_kda_chunk_shared_bytes = 2 * k_kda_operand_bytes + k_kda_scratch_bytes;

static_assert(k_kda_chunk * k_kda_chunk == k_kda_prepare_threads, "a thread sums one element of A and P");
static_assert(k_kda_chunk * k_kda_chunk_values == 4 * k_kda_prepare_threads, "a thread copies 16 bytes of v");
static_assert(k_kda_chunk_dim + k_kda_chunk_values <= k_kda_prepare_threads, "a thread solves one column");
static_assert(k_kda_chunk_shared_bytes <= k_shared_bytes_sm80);

constexpr launch_shape kda_chunk_shape(std::int32_t sequences, std::int32_t heads) {
  return {.grid_x = static_cast<std::int64_t>(sequences) * heads * k_kda_chunk_parts,
          .threads = k_kda_chunk_threads,
          .shared_bytes = k_kda_chunk_shared_bytes};
}

// Sequences of fewer than k_kda_chunk_count_min tokens are left alone.
// REQUIRES: p.dim == k_kda_chunk_dim; all arrays aligned to sixteen bytes.
void kda_chunks(const kda_params<float>& p, const context& ctx);

}  // namespace weir::kernels::cuda
