// Sixteen tokens of one head's recurrence at once, for prompts: the state is read and written once for all of
// them, and nearly all work is matrix products. The chunk form of Kimi Delta Attention ("Kimi Linear: An
// Expressive, Efficient Attention Architecture"), solved forwards. Decays between two tokens are products of
// the tokens' own, each at most 1, so nothing overflows and no difference of sums is ever exponentiated.
#if defined(WEIR_KERNELS_CPU_KDA_CHUNK_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef WEIR_KERNELS_CPU_KDA_CHUNK_INL_HPP
#undef WEIR_KERNELS_CPU_KDA_CHUNK_INL_HPP
#else
#define WEIR_KERNELS_CPU_KDA_CHUNK_INL_HPP
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/vec-inl.hpp"
#include "kernels/params.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::kernels::cpu::HWY_NAMESPACE {

constexpr std::int64_t k_kda_chunk = 16;

// What a chunk needs beside its inputs, for one head. Rows are `dim` long.
struct kda_chunk_scratch {
  HWY_ALIGN float decay[k_kda_chunk * k_head_dim_max];     // [C, D] exp(g)
  HWY_ALIGN float seen[2 * k_kda_chunk * k_head_dim_max];  // [2C, D] keys, queries decayed since the start
  HWY_ALIGN float read[2 * k_kda_chunk * k_head_dim_max];  // [2C, D] what they read of the state at the start
  HWY_ALIGN float left[k_kda_chunk * k_head_dim_max];      // [C, D] keys, decayed until the end
  HWY_ALIGN float update[k_kda_chunk * k_head_dim_max];    // [C, D] u
  HWY_ALIGN float kept[k_head_dim_max];                    // [D] the decay of the whole chunk
  float by_key[k_kda_chunk][k_kda_chunk];                  // [i][j]: k_i on k_j as it is at i, j < i
  float by_query[k_kda_chunk][k_kda_chunk];                // [i][j]: q_i on k_j as it is at i, j <= i
};

// One chunk of one head: rows of q, k, v, g and o are `stride` apart.
struct kda_chunk {
  const float* q;
  const float* k;
  const float* v;
  const float* g;
  const float* beta;  // of row i: beta[i * heads]
  float* o;
  std::int64_t stride;
  std::int64_t heads;
  std::int64_t dim;
};

HWY_INLINE void decay_inputs(const kda_chunk& c, kda_chunk_scratch& s) {
  const std::int64_t lanes = lane_count();
  for (std::int64_t d = 0; d < c.dim; d += lanes) {
    vec total = hn::Set(floats(), 1.0F);
    for (std::int64_t i = 0; i < k_kda_chunk; ++i) {
      const vec factor = hn::Exp(floats(), hn::LoadU(floats(), c.g + i * c.stride + d));
      total = hn::Mul(total, factor);
      hn::StoreU(factor, floats(), s.decay + i * c.dim + d);
      hn::StoreU(hn::Mul(total, hn::LoadU(floats(), c.k + i * c.stride + d)), floats(),
                 s.seen + i * c.dim + d);
      hn::StoreU(hn::Mul(total, hn::LoadU(floats(), c.q + i * c.stride + d)), floats(),
                 s.seen + (k_kda_chunk + i) * c.dim + d);
    }
    hn::StoreU(total, floats(), s.kept + d);
  }
}

// Key j on its way through the chunk, met by every later key and query.
HWY_INLINE void meet(const kda_chunk& c, kda_chunk_scratch& s) {
  const std::int64_t lanes = lane_count();
  for (std::int64_t j = 0; j < k_kda_chunk; ++j) {
    float* left = s.left + j * c.dim;
    const float* key = c.k + j * c.stride;
    vec own = hn::Zero(floats());
    for (std::int64_t d = 0; d < c.dim; d += lanes) {
      const vec value = hn::LoadU(floats(), key + d);
      hn::StoreU(value, floats(), left + d);
      own = hn::MulAdd(value, hn::LoadU(floats(), c.q + j * c.stride + d), own);
    }
    s.by_query[j][j] = sum_lanes(own);
    for (std::int64_t i = j + 1; i < k_kda_chunk; ++i) {
      const float* decay = s.decay + i * c.dim;
      vec by_key = hn::Zero(floats());
      vec by_query = hn::Zero(floats());
      for (std::int64_t d = 0; d < c.dim; d += lanes) {
        const vec value = hn::Mul(hn::LoadU(floats(), left + d), hn::LoadU(floats(), decay + d));
        hn::StoreU(value, floats(), left + d);
        by_key = hn::MulAdd(value, hn::LoadU(floats(), c.k + i * c.stride + d), by_key);
        by_query = hn::MulAdd(value, hn::LoadU(floats(), c.q + i * c.stride + d), by_query);
      }
      s.by_key[i][j] = sum_lanes(by_key);
      s.by_query[i][j] = sum_lanes(by_query);
    }
  }
}

// read = seen · state, columns [j, j + Vectors * lanes).
template <int Vectors>
HWY_INLINE void read_state(const float* state, std::int64_t dim, std::int64_t j, kda_chunk_scratch& s) {
  constexpr int k_rows = 8;
  const std::int64_t lanes = lane_count();
  for (std::int64_t first = 0; first < 2 * k_kda_chunk; first += k_rows) {
    vec sum[k_rows][Vectors];
    for (auto& row : sum) {
      for (auto& part : row) part = hn::Zero(floats());
    }
    for (std::int64_t d = 0; d < dim; ++d) {
      vec cells[Vectors];
      for (int n = 0; n < Vectors; ++n) cells[n] = hn::LoadU(floats(), state + d * dim + j + n * lanes);
      for (int r = 0; r < k_rows; ++r) {
        const vec by = hn::Set(floats(), s.seen[(first + r) * dim + d]);
        for (int n = 0; n < Vectors; ++n) sum[r][n] = hn::MulAdd(by, cells[n], sum[r][n]);
      }
    }
    for (int r = 0; r < k_rows; ++r) {
      for (int n = 0; n < Vectors; ++n)
        hn::StoreU(sum[r][n], floats(), s.read + (first + r) * dim + j + n * lanes);
    }
  }
}

// u by forward substitution, then o; one column vector at a time.
HWY_INLINE void solve(const kda_chunk& c, kda_chunk_scratch& s) {
  const std::int64_t lanes = lane_count();
  for (std::int64_t j = 0; j < c.dim; j += lanes) {
    vec update[k_kda_chunk];
    for (std::int64_t i = 0; i < k_kda_chunk; ++i) {
      vec rest =
          hn::Sub(hn::LoadU(floats(), c.v + i * c.stride + j), hn::LoadU(floats(), s.read + i * c.dim + j));
      for (std::int64_t n = 0; n < i; ++n)
        rest = hn::NegMulAdd(hn::Set(floats(), s.by_key[i][n]), update[n], rest);
      update[i] = hn::Mul(hn::Set(floats(), c.beta[i * c.heads]), rest);
      hn::StoreU(update[i], floats(), s.update + i * c.dim + j);
      vec out = hn::LoadU(floats(), s.read + (k_kda_chunk + i) * c.dim + j);
      for (std::int64_t n = 0; n <= i; ++n)
        out = hn::MulAdd(hn::Set(floats(), s.by_query[i][n]), update[n], out);
      hn::StoreU(out, floats(), c.o + i * c.stride + j);
    }
  }
}

// state = kept ⊙ state + leftᵀ · update, columns [j, j + Vectors * lanes). REQUIRES: dim a multiple of 4.
template <int Vectors>
HWY_INLINE void write_state(float* state, std::int64_t dim, std::int64_t j, const kda_chunk_scratch& s) {
  constexpr int k_rows = 4;
  const std::int64_t lanes = lane_count();
  for (std::int64_t d = 0; d < dim; d += k_rows) {
    vec cells[k_rows][Vectors];
    for (int r = 0; r < k_rows; ++r) {
      for (int n = 0; n < Vectors; ++n) {
        const float* from = state + (d + r) * dim + j + n * lanes;
        cells[r][n] = hn::Mul(hn::Set(floats(), s.kept[d + r]), hn::LoadU(floats(), from));
      }
    }
    for (std::int64_t i = 0; i < k_kda_chunk; ++i) {
      vec update[Vectors];
      for (int n = 0; n < Vectors; ++n) update[n] = hn::LoadU(floats(), s.update + i * dim + j + n * lanes);
      for (int r = 0; r < k_rows; ++r) {
        const vec by = hn::Set(floats(), s.left[i * dim + d + r]);
        for (int n = 0; n < Vectors; ++n) cells[r][n] = hn::MulAdd(by, update[n], cells[r][n]);
      }
    }
    for (int r = 0; r < k_rows; ++r) {
      for (int n = 0; n < Vectors; ++n)
        hn::StoreU(cells[r][n], floats(), state + (d + r) * dim + j + n * lanes);
    }
  }
}

HWY_INLINE bool chunks_fit(std::int64_t dim) {
  return dim % lane_count() == 0 && dim % 4 == 0;
}

// REQUIRES: chunks_fit(c.dim).
HWY_INLINE void kda_one_chunk(const kda_chunk& c, float* state, kda_chunk_scratch& s) {
  const std::int64_t lanes = lane_count();
  decay_inputs(c, s);
  meet(c, s);
  std::int64_t j = 0;
  for (; j + 2 * lanes <= c.dim; j += 2 * lanes) read_state<2>(state, c.dim, j, s);
  for (; j < c.dim; j += lanes) read_state<1>(state, c.dim, j, s);
  solve(c, s);
  j = 0;
  for (; j + 4 * lanes <= c.dim; j += 4 * lanes) write_state<4>(state, c.dim, j, s);
  for (; j < c.dim; j += lanes) write_state<1>(state, c.dim, j, s);
}

}  // namespace weir::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // WEIR_KERNELS_CPU_KDA_CHUNK_INL_HPP
