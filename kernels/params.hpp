// One parameter struct per operation, the same for every backend. A is the activation scalar: double in the
// reference backend, float elsewhere. Weights keep their stored dtype and are widened inside the kernel.
//
// Letters: T tokens (rows of the flattened batch), B sequences, H heads, D head dim, C = H * D channels, K
// taps of the short convolution, R latent rank, Dn/Dr/Dv MLA no-position/shared/value dims, P tokens per
// page, E experts, F expert width. Plain views: the caller owns all memory and keeps it alive during the
// call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"

namespace weir::kernels {

class thread_pool;

inline constexpr std::int32_t k_head_dim_max = 512;  // stack rows of the KDA kernels are this long
inline constexpr std::int32_t k_conv_taps_max = 16;
inline constexpr std::int32_t k_experts_per_token_max = 64;
inline constexpr std::int32_t k_residual_sources_max = 64;

// Row-major weights; `data` is aligned to the element size. Grouped formats are for gemm and experts only,
// and have a whole number of groups in a row.
struct matrix {
  const void* data = nullptr;  // [rows, cols]
  dtype type = dtype::f32;
  std::int32_t rows = 0;
  std::int32_t cols = 0;
  const void* scales = nullptr;  // of grouped formats: [rows, cols / group] of uint8 (mxfp4), float (int8)

  const std::uint8_t* exponents() const noexcept { return static_cast<const std::uint8_t*>(scales); }
  const float* factors() const noexcept { return static_cast<const float*>(scales); }
};

// The same matrix of every expert: all of one shape and type.
struct matrix_list {
  const matrix* each = nullptr;  // [E], lies where the kernels run
  dtype type = dtype::f32;
};

// How latents are kept in pages.
enum class latent_format : std::uint8_t {
  activation,  // as A
  bf16,        // rounded to nearest even
};

// SiTU, the bounded gated unit: (beta tanh(g / beta) sigmoid(g)) * (linear_beta tanh(u / linear_beta)).
// All zero: not bounded, silu(g) * u.
struct situ_bounds {
  double beta = 0.0;
  double linear_beta = 0.0;

  bool bounded() const noexcept { return beta > 0.0; }
};

// A sequence's run of consecutive tokens in the batch. Position 0 starts from a zero state, whatever its slot
// holds.
struct sequence_range {
  std::int32_t row = 0;       // first row in [T]
  std::int32_t count = 0;     // rows
  std::int32_t position = 0;  // position of the first row = tokens computed before
  std::int32_t slot = 0;      // KDA and convolution state
};

struct batch_view {
  const sequence_range* sequences = nullptr;   // [B]
  const std::int32_t* row_sequence = nullptr;  // [T] index into sequences
  const std::int32_t* block_table = nullptr;   // [B, table_stride] page indices, in token order
  std::int32_t sequence_count = 0;
  std::int32_t table_stride = 0;
  std::int32_t row_count = 0;  // T
  // The largest of any sequence, for who lays out work without reading the arrays, which may lie on a device.
  std::int32_t context_max = 0;  // position + count
  std::int32_t count_max = 0;
};

// What every call gets besides its parameters.
struct context {
  thread_pool* pool = nullptr;     // may be null: single-threaded
  std::byte* workspace = nullptr;  // aligned to 64; at least the table's *_workspace_bytes for the call
  std::size_t workspace_bytes = 0;
  void* stream = nullptr;  // of a device: calls return before their work is done, in this order; host: null
};

// c = a · bᵀ
template <class A>
struct gemm_params {
  const A* a;         // [T, b.cols]
  matrix b;           // [N, cols]
  A* c;               // [T, N]
  std::int32_t rows;  // T
};

// y = x / rms(x) * weight, row by row. In place when y == x.
template <class A>
struct rmsnorm_params {
  const A* x;           // [T, stride], the first `dim` of each row are read
  const float* weight;  // [dim]
  A* y;                 // [T, stride], the first `dim` of each row are written
  std::int32_t rows;
  std::int32_t dim;
  std::int32_t stride;
  double eps;
};

// x = x * rsqrt(sum(x²) + eps) * scale over each head, in place.
template <class A>
struct l2norm_params {
  A* x;               // [rows, dim]
  std::int32_t rows;  // T * H
  std::int32_t dim;
  double eps;
  double scale;
};

template <class A>
struct embed_params {
  matrix table;             // [V, E]
  const std::int32_t* ids;  // [T], each in [0, V)
  A* y;                     // [T, E]
  std::int32_t rows;
};

// y = silu(causal depthwise convolution of x); the last tap multiplies the current token.
template <class A>
struct short_conv_params {
  const A* x;           // [T, C]
  const float* weight;  // [K, C]
  A* state;             // [slots, K-1, C] the last K-1 inputs, oldest first; null when K == 1
  A* y;                 // [T, C], not x
  batch_view batch;
  std::int32_t channels;
  std::int32_t taps;
  std::int64_t slot_stride;  // from one slot's tail to the next one's, in elements: at least (K-1) * C
};

// The log decay g, of z' = z + dt_bias: -exp(a_log[h]) * softplus(z'), or with a lower bound (below 0) the
// other function lower_bound * sigmoid(exp(a_log[h]) * z'). beta = sigmoid(b). Both in place.
template <class A>
struct kda_gate_params {
  A* g;                  // [T, H, D] in: z, out: g
  A* beta;               // [T, H] in: b, out: beta
  const float* dt_bias;  // [H, D]
  const float* a_log;    // [H]
  std::int32_t rows;
  std::int32_t heads;
  std::int32_t dim;
  double lower_bound = 0.0;  // 0: none
};

// Token by token: S <- diag(exp g) S; u = beta (v - Sᵀk); S <- S + k uᵀ; o = Sᵀq.
template <class A>
struct kda_params {
  const A* q;     // [T, H, D] normalised and scaled
  const A* k;     // [T, H, D] normalised
  const A* v;     // [T, H, D]
  const A* g;     // [T, H, D]
  const A* beta;  // [T, H]
  A* state;       // [slots, H, D(key), D(value)]
  A* o;           // [T, H, D]
  batch_view batch;
  std::int32_t heads;
  std::int32_t dim;
  std::int64_t slot_stride;  // from one slot's state to the next one's, in elements: at least H * D * D
};

// o = rmsnorm over D (o) * weight * sigmoid(gate), in place.
template <class A>
struct gated_norm_params {
  A* o;                 // [rows, D]
  const A* gate;        // [rows, D]
  const float* weight;  // [D]
  std::int32_t rows;    // T * H
  std::int32_t dim;
  double eps;
};

// Scatters each row's latent into the page of its position.
template <class A>
struct mla_store_params {
  const A* latents;  // [T, R + Dr]: normalised c, then the shared key part
  void* pages;       // [pages, P, R + Dr], one layer's, in `format`
  batch_view batch;
  std::int32_t width;  // R + Dr
  std::int32_t page_tokens;
  std::int64_t page_stride;  // from one page to the next, in elements: at least P * (R + Dr)
  latent_format format = latent_format::activation;
};

// Causal attention over the stored latents, with W_uk and W_uv absorbed. Row t sees positions 0..its own.
template <class A>
struct mla_params {
  const A* q;         // [T, H, Dn + Dr]
  matrix kv_b;        // [H * (Dn + Dv), R]
  const void* pages;  // [pages, P, R + Dr], one layer's, in `format`, the batch's own rows already stored
  A* o;               // [T, H, Dv]
  batch_view batch;
  std::int32_t heads;
  std::int32_t nope_dim;
  std::int32_t rope_dim;
  std::int32_t value_dim;
  std::int32_t rank;
  std::int32_t page_tokens;
  std::int64_t page_stride;  // as in mla_store_params
  latent_format format = latent_format::activation;
};

// Picks the k largest of sigmoid(logits) + bias (lowest index on a tie); weights come without the bias.
template <class A>
struct router_params {
  const A* logits;    // [T, E]
  const float* bias;  // [E]
  std::int32_t* ids;  // [T, k] best first
  A* weights;         // [T, k]
  std::int32_t rows;
  std::int32_t experts;
  std::int32_t per_token;  // k
  bool renormalize;        // divide by (sum + 1e-20)
  double scale;
};

// y = sum over chosen experts of weight * w2 unit(w1 x, w3 x), the unit being silu(g) * u or SiTU.
template <class A>
struct experts_params {
  const A* x;               // [T, D]
  matrix_list w1;           // of [F, D]
  matrix_list w3;           // of [F, D], of w1's type
  matrix_list w2;           // of [D, F]
  const std::int32_t* ids;  // [T, k]
  const A* weights;         // [T, k]
  A* y;                     // [T, D], not x
  std::int32_t rows;
  std::int32_t experts;
  std::int32_t per_token;
  std::int32_t dim;
  std::int32_t width;
  situ_bounds situ = {};
};

// gate = silu(gate) * up
template <class A>
struct silu_mul_params {
  A* gate;      // [count]
  const A* up;  // [count]
  std::int64_t count;
};

// gate = SiTU(gate, up). REQUIRES: both betas > 0.
template <class A>
struct situ_mul_params {
  A* gate;      // [count]
  const A* up;  // [count]
  std::int64_t count;
  situ_bounds situ;
};

// x = x * sigmoid(gate)
template <class A>
struct sigmoid_mul_params {
  A* x;           // [count]
  const A* gate;  // [count]
  std::int64_t count;
};

// y = sum over sources v of softmax(sum(v / rms(v) * norm * proj)) * v, row by row: what a layer reads when
// the residual stream is kept in blocks. The sources are the finished blocks and then the running one.
template <class A>
struct residual_mix_params {
  const A* blocks;           // [S, T, M]
  const A* current;          // [T, M]
  const float* norm;         // [M]
  const float* proj;         // [M]
  A* y;                      // [T, M], none of the sources
  std::int32_t block_count;  // S, below k_residual_sources_max
  std::int32_t rows;
  std::int32_t dim;  // M
  double eps;
};

// y[i] = x[ids[i]], row by row.
template <class A>
struct gather_params {
  const A* x;               // [T, dim]
  const std::int32_t* ids;  // [rows], each in [0, T)
  A* y;                     // [rows, dim], not x
  std::int32_t rows;
  std::int32_t dim;
};

// x = x + y
template <class A>
struct add_params {
  A* x;        // [count]
  const A* y;  // [count]
  std::int64_t count;
};

}  // namespace weir::kernels
