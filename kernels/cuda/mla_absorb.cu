#include "kernels/cuda/mla.cuh"

namespace weir::kernels::cuda {

namespace {

constexpr int k_octets = k_absorb_columns / 8;
constexpr int k_depth_parts = k_absorb_threads / k_octets;

// Eight neighbours of a row of weights, zeros behind its end.
__device__ void load_eight(float (&into)[8], const matrix& m, std::int64_t row, int column, bool whole) {
  const std::int64_t first = row * m.cols + column;
  if (whole) {
    const uint4 bits = load_once(static_cast<const std::uint16_t*>(m.data) + first);
    const std::uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) into[i] = i % 2 == 0 ? low_bf16(words[i / 2]) : high_bf16(words[i / 2]);
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    into[i] = column + i < m.cols ? load_element(m.data, m.type, static_cast<std::size_t>(first + i)) : 0.0F;
  }
}

__device__ void store_query(float* to, float value) {
  *to = value;
}
__device__ void store_query(std::uint16_t* to, float value) {
  *to = to_bf16(value);
}

// Where a block is: eight tokens of a head, k_absorb_columns columns of its queries.
struct absorb_place {
  int column;
  int head;
  std::int64_t token;

  __device__ absorb_place(const mla_params<float>& p, int column_blocks)
      : column(static_cast<int>(blockIdx.x % column_blocks) * k_absorb_columns),
        head(static_cast<int>(blockIdx.x / column_blocks % p.heads)),
        token(static_cast<std::int64_t>(blockIdx.x / column_blocks / p.heads) * k_absorb_tokens) {}
};

// This thread's eight columns of every token, over its part of the depth.
__device__ void multiply_octet(float (&sums)[k_absorb_tokens][8], const mla_params<float>& p,
                               const absorb_place& at, float* queries, bool whole) {
  const int me = static_cast<int>(threadIdx.x);
  const int column = at.column + me % k_octets * 8;
  const std::int64_t row = static_cast<std::int64_t>(at.head) * (p.nope_dim + p.value_dim);
  const int width = p.nope_dim + p.rope_dim;
  for (int first = 0; first < p.nope_dim; first += k_absorb_depth) {
    const int depth = p.nope_dim - first < k_absorb_depth ? p.nope_dim - first : k_absorb_depth;
    __syncthreads();
    for (int i = me; i < k_absorb_tokens * k_absorb_depth; i += k_absorb_threads) {
      const std::int64_t t = at.token + i / k_absorb_depth;
      const bool there = t < p.batch.row_count && i % k_absorb_depth < depth;
      queries[i] = there ? p.q[(t * p.heads + at.head) * width + first + i % k_absorb_depth] : 0.0F;
    }
    __syncthreads();
    if (column >= p.rank) continue;
#pragma unroll 4
    for (int i = me / k_octets; i < depth; i += k_depth_parts) {
      float weights[8];
      load_eight(weights, p.kv_b, row + first + i, column, whole);
#pragma unroll
      for (int t = 0; t < k_absorb_tokens; ++t) {
#pragma unroll
        for (int n = 0; n < 8; ++n) sums[t][n] += weights[n] * queries[t * k_absorb_depth + i];
      }
    }
  }
}

// Queries against the latents: W_uk^T q, and the shared part as it is, both scaled. Parts of the depth are
// added in their order.
template <class Query>
__global__ void __launch_bounds__(k_absorb_threads)
    absorb(mla_stages a, int column_blocks, float scale, bool whole) {
  const mla_params<float>& p = a.p;
  auto* const queries = dynamic_shared<float>();                    // [tokens, k_absorb_depth]
  float* const parts = queries + k_absorb_tokens * k_absorb_depth;  // [parts, tokens, columns]
  const int me = static_cast<int>(threadIdx.x);
  const absorb_place at(p, column_blocks);
  float sums[k_absorb_tokens][8] = {};
  multiply_octet(sums, p, at, queries, whole);
#pragma unroll
  for (int i = 0; i < k_absorb_tokens * 8; ++i) {
    parts[(me / k_octets * k_absorb_tokens + i / 8) * k_absorb_columns + me % k_octets * 8 + i % 8] =
        sums[i / 8][i % 8];
  }
  __syncthreads();
  const std::int64_t left = p.batch.row_count - at.token;
  const int tokens = left < k_absorb_tokens ? static_cast<int>(left) : k_absorb_tokens;
  for (int i = me; i < tokens * k_absorb_columns; i += k_absorb_threads) {
    const int column = at.column + i % k_absorb_columns;
    if (column >= p.rank + p.rope_dim) continue;
    const std::int64_t query = (at.token + i / k_absorb_columns) * p.heads + at.head;
    float sum = 0.0F;
    if (column >= p.rank) {
      sum = p.q[query * (p.nope_dim + p.rope_dim) + p.nope_dim + column - p.rank];
    } else {
      for (int part = 0; part < k_depth_parts; ++part)
        sum += parts[part * k_absorb_tokens * k_absorb_columns + i];
    }
    store_query(static_cast<Query*>(a.queries) + query * (p.rank + p.rope_dim) + column, sum * scale);
  }
}

}  // namespace

template <class Query>
void absorb_queries(const mla_stages& a, const context& ctx) {
  const std::int64_t width = a.p.rank + a.p.rope_dim;
  const float scale = 1.0F / std::sqrt(static_cast<float>(a.p.nope_dim + a.p.rope_dim));
  const bool whole = a.p.kv_b.type == dtype::bf16 && a.p.rank % 8 == 0 && aligned16(a.p.kv_b.data);
  launch(absorb<Query>, absorb_shape(a.p.batch.row_count, a.p.heads, width), ctx.stream, a,
         static_cast<int>(divide_up(width, k_absorb_columns)), scale, whole);
}

template void absorb_queries<float>(const mla_stages& a, const context& ctx);
template void absorb_queries<std::uint16_t>(const mla_stages& a, const context& ctx);

}  // namespace weir::kernels::cuda
