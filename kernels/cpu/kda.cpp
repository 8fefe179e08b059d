#include <algorithm>

#include "kernels/cpu/ops.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/kda.cpp"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/vec-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::kernels::cpu::HWY_NAMESPACE {

// Inputs of one sequence around its range: row `index` counts from the range's start, negative rows come from
// the state.
struct conv_rows {
  const float* x;
  float* state;
  std::int64_t channels;
  std::int64_t depth;
  bool fresh;

  HWY_INLINE vec load(std::int64_t index, std::int64_t channel, std::int64_t left) const {
    if (index >= 0) return load_up_to(x + index * channels + channel, left);
    if (fresh) return hn::Zero(floats());
    return load_up_to(state + (depth + index) * channels + channel, left);
  }
};

HWY_INLINE void conv_sequence(const short_conv_params<float>& p, const sequence_range& seq,
                              std::int64_t channel, std::int64_t left) {
  const std::int64_t channels = p.channels;
  const std::int64_t depth = p.taps - 1;
  const std::int64_t first = seq.row * channels;
  const conv_rows rows{p.x + first, p.state + seq.slot * p.slot_stride, channels, depth, seq.position == 0};
  for (std::int64_t token = 0; token < seq.count; ++token) {
    vec sum = hn::Zero(floats());
    for (std::int64_t tap = 0; tap < p.taps; ++tap) {
      const vec weight = load_up_to(p.weight + tap * channels + channel, left);
      sum = hn::MulAdd(weight, rows.load(token - depth + tap, channel, left), sum);
    }
    store_up_to(hn::Mul(sum, sigmoid(sum)), p.y + first + token * channels + channel, left);
  }
  // Oldest first: entry i is read from entry i + count or from the batch, so nothing is overwritten before it
  // is read.
  for (std::int64_t i = 0; i < depth; ++i) {
    store_up_to(rows.load(seq.count - depth + i, channel, left), rows.state + i * channels + channel, left);
  }
}

void conv_blocks(const short_conv_params<float>& p, std::int64_t begin, std::int64_t end) {
  for (std::int64_t channel = begin; channel < end; channel += lane_count()) {
    for (std::int32_t s = 0; s < p.batch.sequence_count; ++s) {
      conv_sequence(p, p.batch.sequences[s], channel, end - channel);
    }
  }
}

void gate_rows(const kda_gate_params<float>& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t lanes = lane_count();
  const bool bounded = p.lower_bound < 0.0;
  const vec bound = hn::Set(floats(), static_cast<float>(p.lower_bound));
  for (std::int64_t row = begin; row < end; ++row) {
    for (std::int64_t head = 0; head < p.heads; ++head) {
      const vec rate = hn::Exp(floats(), hn::Set(floats(), p.a_log[head]));
      float* g = p.g + (row * p.heads + head) * p.dim;
      const float* bias = p.dt_bias + head * p.dim;
      for (std::int64_t i = 0; i < p.dim; i += lanes) {
        const std::int64_t left = p.dim - i;
        const vec z = hn::Add(load_up_to(g + i, left), load_up_to(bias + i, left));
        const vec decay =
            bounded ? hn::Mul(bound, sigmoid(hn::Mul(rate, z))) : hn::Neg(hn::Mul(rate, softplus(z)));
        store_up_to(decay, g + i, left);
      }
    }
    float* beta = p.beta + row * p.heads;
    for (std::int64_t i = 0; i < p.heads; i += lanes) {
      store_up_to(sigmoid(load_up_to(beta + i, p.heads - i)), beta + i, p.heads - i);
    }
  }
}

// Tokens of one head that are taken at a time, so that a part of the state stays in the first-level cache
// for all of them.
constexpr std::int64_t k_kda_tokens = 16;

struct kda_tile {
  const float* q;  // [tokens, stride], as k, v and o
  const float* k;
  const float* v;
  const float* beta;  // of token t: beta[t * heads]
  float* o;
  std::int64_t stride;
  std::int64_t heads;
  std::int64_t dim;
  std::int64_t tokens;                                       // at most k_kda_tokens
  HWY_ALIGN float decay[k_kda_tokens * k_head_dim_max];      // [tokens, dim] exp(g)
  HWY_ALIGN float decayed_k[k_kda_tokens * k_head_dim_max];  // [tokens, dim] k * exp(g)
};

// Columns [j, j + Vectors * lanes) of the state: read, update and output touch no other column. What a token
// reads is summed while the one before it writes.
template <int Vectors>
HWY_INLINE void kda_columns(const kda_tile& t, float* state, std::int64_t j) {
  const std::int64_t lanes = lane_count();
  vec read[Vectors];
  for (auto& part : read) part = hn::Zero(floats());
  for (std::int64_t i = 0; i < t.dim; ++i) {
    const vec key = hn::Set(floats(), t.decayed_k[i]);
    const float* row = state + i * t.dim + j;
    for (int n = 0; n < Vectors; ++n)
      read[n] = hn::MulAdd(key, hn::LoadU(floats(), row + n * lanes), read[n]);
  }
  for (std::int64_t token = 0; token < t.tokens; ++token) {
    const float* keys = t.k + token * t.stride;
    const float* queries = t.q + token * t.stride;
    const float* decays = t.decay + token * t.dim;
    const float* next_keys = t.decayed_k + std::min(token + 1, t.tokens - 1) * t.dim;
    const vec beta = hn::Set(floats(), t.beta[token * t.heads]);
    vec update[Vectors];
    vec out[Vectors];
    for (int n = 0; n < Vectors; ++n) {
      const vec value = hn::LoadU(floats(), t.v + token * t.stride + j + n * lanes);
      update[n] = hn::Mul(beta, hn::Sub(value, read[n]));
      out[n] = read[n] = hn::Zero(floats());
    }
    for (std::int64_t i = 0; i < t.dim; ++i) {
      const vec key = hn::Set(floats(), keys[i]);
      const vec query = hn::Set(floats(), queries[i]);
      const vec decay = hn::Set(floats(), decays[i]);
      const vec next_key = hn::Set(floats(), next_keys[i]);
      float* row = state + i * t.dim + j;
      for (int n = 0; n < Vectors; ++n) {
        const vec kept = hn::Mul(decay, hn::LoadU(floats(), row + n * lanes));
        const vec next = hn::MulAdd(key, update[n], kept);
        hn::StoreU(next, floats(), row + n * lanes);
        out[n] = hn::MulAdd(query, next, out[n]);
        read[n] = hn::MulAdd(next_key, next, read[n]);
      }
    }
    for (int n = 0; n < Vectors; ++n) hn::StoreU(out[n], floats(), t.o + token * t.stride + j + n * lanes);
  }
}

HWY_INLINE void kda_column(const kda_tile& t, float* state, std::int64_t j) {
  for (std::int64_t token = 0; token < t.tokens; ++token) {
    float read = 0.0F;
    for (std::int64_t i = 0; i < t.dim; ++i) read += t.decayed_k[token * t.dim + i] * state[i * t.dim + j];
    const float update = t.beta[token * t.heads] * (t.v[token * t.stride + j] - read);
    float out = 0.0F;
    for (std::int64_t i = 0; i < t.dim; ++i) {
      float& cell = state[i * t.dim + j];
      cell = t.decay[token * t.dim + i] * cell + t.k[token * t.stride + i] * update;
      out += t.q[token * t.stride + i] * cell;
    }
    t.o[token * t.stride + j] = out;
  }
}

// `g` is that of the tile's first token.
HWY_INLINE void kda_run(kda_tile& t, const float* g, float* state) {
  constexpr int k_vectors = 2;  // enough independent sums, and 16 KiB of state at most beside other data
  const std::int64_t lanes = lane_count();
  for (std::int64_t token = 0; token < t.tokens; ++token) {
    for (std::int64_t i = 0; i < t.dim; i += lanes) {
      const std::int64_t left = t.dim - i;
      const vec factor = hn::Exp(floats(), load_up_to(g + token * t.stride + i, left));
      store_up_to(factor, t.decay + token * t.dim + i, left);
      store_up_to(hn::Mul(factor, load_up_to(t.k + token * t.stride + i, left)),
                  t.decayed_k + token * t.dim + i, left);
    }
  }
  std::int64_t j = 0;
  for (; j + k_vectors * lanes <= t.dim; j += k_vectors * lanes) kda_columns<k_vectors>(t, state, j);
  for (; j + lanes <= t.dim; j += lanes) kda_columns<1>(t, state, j);
  for (; j < t.dim; ++j) kda_column(t, state, j);
}

void kda_items(const kda_params<float>& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t square = static_cast<std::int64_t>(p.dim) * p.dim;
  kda_tile tile;
  tile.stride = static_cast<std::int64_t>(p.heads) * p.dim;
  tile.heads = p.heads;
  tile.dim = p.dim;
  for (std::int64_t item = begin; item < end; ++item) {
    const sequence_range& seq = p.batch.sequences[item / p.heads];
    const std::int64_t head = item % p.heads;
    float* state = p.state + seq.slot * p.slot_stride + head * square;
    if (seq.position == 0) std::fill_n(state, square, 0.0F);
    for (std::int64_t token = 0; token < seq.count; token += k_kda_tokens) {
      const std::int64_t row = seq.row + token;
      const std::int64_t at = row * tile.stride + head * p.dim;
      tile.q = p.q + at;
      tile.k = p.k + at;
      tile.v = p.v + at;
      tile.beta = p.beta + row * p.heads + head;
      tile.o = p.o + at;
      tile.tokens = std::min<std::int64_t>(k_kda_tokens, seq.count - token);
      kda_run(tile, p.g + at, state);
    }
  }
}

}  // namespace weir::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::kernels::cpu {

HWY_EXPORT(conv_blocks);
HWY_EXPORT(gate_rows);
HWY_EXPORT(kda_items);

void short_conv(const short_conv_params<float>& p, const context& ctx) {
  split(ctx, p.channels, static_cast<std::int64_t>(p.batch.row_count) * p.taps,
        [&p](std::int64_t begin, std::int64_t end, int) {
          HWY_DYNAMIC_DISPATCH(conv_blocks)(p, begin, end);
        });
}

void kda_gate(const kda_gate_params<float>& p, const context& ctx) {
  constexpr std::int64_t k_softplus_work = 32;  // in multiply-adds
  split(ctx, p.rows, static_cast<std::int64_t>(p.heads) * p.dim * k_softplus_work,
        [&p](std::int64_t begin, std::int64_t end, int) {
          HWY_DYNAMIC_DISPATCH(gate_rows)
          (p, begin, end);
        });
}

void kda(const kda_params<float>& p, const context& ctx) {
  const std::int64_t sequences = p.batch.sequence_count > 0 ? p.batch.sequence_count : 1;
  const std::int64_t work = p.batch.row_count / sequences * p.dim * p.dim * 4;
  split(ctx, static_cast<std::int64_t>(p.batch.sequence_count) * p.heads, work,
        [&p](std::int64_t begin, std::int64_t end, int) {
          HWY_DYNAMIC_DISPATCH(kda_items)
          (p, begin, end);
        });
}

}  // namespace weir::kernels::cpu
#endif  // HWY_ONCE
