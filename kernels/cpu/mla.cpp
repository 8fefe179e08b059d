#include <algorithm>
#include <cmath>

#include "kernels/cpu/ops.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/mla.cpp"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/vec-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::kernels::cpu::HWY_NAMESPACE {

// One worker's scratch: the absorbed query, the mixed latent and one page of scores.
struct mla_scratch {
  float* query;   // [R + Dr]
  float* mixed;   // [R]
  float* scores;  // [P]
};

// scores = exp(scores - largest); returns their sum.
HWY_INLINE float exponentiate(float* scores, std::int64_t count, float largest) {
  const std::int64_t lanes = lane_count();
  const vec shift = hn::Set(floats(), largest);
  float total = 0.0F;
  for (std::int64_t i = 0; i < count; i += lanes) {
    const std::int64_t left = count - i;
    store_up_to(hn::Exp(floats(), hn::Sub(load_up_to(scores + i, left), shift)), scores + i, left);
  }
  for (std::int64_t i = 0; i < count; ++i) total += scores[i];
  return total;
}

// Online softmax over [0, count) page by page; leaves the probability-weighted latent in scratch.mixed.
HWY_INLINE void attend(const mla_params<float>& p, const std::int32_t* pages, std::int64_t count,
                       const mla_scratch& scratch) {
  const std::int64_t width = p.rank + p.rope_dim;
  const float scale = 1.0F / std::sqrt(static_cast<float>(p.nope_dim + p.rope_dim));
  float largest = -HUGE_VALF;
  float total = 0.0F;
  std::fill_n(scratch.mixed, p.rank, 0.0F);
  for (std::int64_t first = 0; first < count; first += p.page_tokens) {
    const float* page = p.pages + pages[first / p.page_tokens] * p.page_stride;
    const std::int64_t here = std::min<std::int64_t>(p.page_tokens, count - first);
    float page_largest = largest;
    for (std::int64_t i = 0; i < here; ++i) {
      scratch.scores[i] = dot(scratch.query, page + i * width, width) * scale;
      page_largest = std::max(page_largest, scratch.scores[i]);
    }
    const float rescale = std::exp(largest - page_largest);
    largest = page_largest;
    total = total * rescale + exponentiate(scratch.scores, here, largest);
    scale_by(rescale, scratch.mixed, p.rank);
    for (std::int64_t i = 0; i < here; ++i)
      add_scaled(scratch.scores[i], page + i * width, scratch.mixed, p.rank);
  }
  scale_by(1.0F / total, scratch.mixed, p.rank);
}

template <class W>
HWY_INLINE void heads(const mla_params<float>& p, std::int64_t begin, std::int64_t end,
                      const mla_scratch& scratch) {
  const std::int64_t query_dim = p.nope_dim + p.rope_dim;
  for (std::int64_t item = begin; item < end; ++item) {
    const std::int64_t row = item / p.heads;
    const std::int64_t head = item % p.heads;
    const std::int32_t sequence = p.batch.row_sequence[row];
    const sequence_range& seq = p.batch.sequences[sequence];
    const float* q = p.q + item * query_dim;
    const W* up_key = static_cast<const W*>(p.kv_b.data) + head * (p.nope_dim + p.value_dim) * p.rank;
    const W* up_value = up_key + static_cast<std::int64_t>(p.nope_dim) * p.rank;
    std::fill_n(scratch.query, p.rank, 0.0F);
    for (std::int64_t i = 0; i < p.nope_dim; ++i)
      add_scaled(q[i], up_key + i * p.rank, scratch.query, p.rank);
    std::copy_n(q + p.nope_dim, p.rope_dim, scratch.query + p.rank);
    const std::int64_t table = static_cast<std::int64_t>(sequence) * p.batch.table_stride;
    attend(p, p.batch.block_table + table, seq.position + (row - seq.row) + 1, scratch);
    float* o = p.o + item * p.value_dim;
    for (std::int64_t j = 0; j < p.value_dim; ++j) o[j] = dot(scratch.mixed, up_value + j * p.rank, p.rank);
  }
}

void mla_heads(const mla_params<float>& p, std::int64_t begin, std::int64_t end, float* scratch_floats) {
  const mla_scratch scratch{scratch_floats, scratch_floats + p.rank + p.rope_dim,
                            scratch_floats + 2 * static_cast<std::int64_t>(p.rank) + p.rope_dim};
  switch (p.kv_b.type) {
    case dtype::f32:
      return heads<float>(p, begin, end, scratch);
    case dtype::bf16:
      return heads<hwy::bfloat16_t>(p, begin, end, scratch);
    case dtype::f16:
      return heads<hwy::float16_t>(p, begin, end, scratch);
    case dtype::mxfp4:
    case dtype::int8:
      return;  // never stored so
  }
}

}  // namespace weir::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::kernels::cpu {

HWY_EXPORT(mla_heads);

namespace {

// Rounded to a cache line, so that workers do not share one.
std::int64_t scratch_floats(const mla_params<float>& p) {
  const std::int64_t used = 2 * static_cast<std::int64_t>(p.rank) + p.rope_dim + p.page_tokens;
  return (used + 15) / 16 * 16;
}

}  // namespace

std::size_t mla_workspace_bytes(const mla_params<float>& p, int thread_count) {
  return static_cast<std::size_t>(scratch_floats(p) * thread_count) * sizeof(float);
}

void mla_store(const mla_store_params<float>& p, const context&) {
  for (std::int32_t s = 0; s < p.batch.sequence_count; ++s) {
    const sequence_range& seq = p.batch.sequences[s];
    const std::int32_t* pages = p.batch.block_table + static_cast<std::int64_t>(s) * p.batch.table_stride;
    for (std::int32_t token = 0; token < seq.count; ++token) {
      const std::int32_t position = seq.position + token;
      const std::int64_t page = pages[position / p.page_tokens];
      const float* from = p.latents + static_cast<std::int64_t>(seq.row + token) * p.width;
      const std::int64_t row = position % p.page_tokens;
      std::copy_n(from, p.width, p.pages + page * p.page_stride + row * p.width);
    }
  }
}

void mla(const mla_params<float>& p, const context& ctx) {
  std::int64_t longest = 1;
  for (std::int32_t s = 0; s < p.batch.sequence_count; ++s) {
    const sequence_range& seq = p.batch.sequences[s];
    longest = std::max<std::int64_t>(longest, seq.position + seq.count);
  }
  const std::int64_t work = (longest * 2 + p.nope_dim + p.value_dim) * p.rank;
  float* scratch = reinterpret_cast<float*>(ctx.workspace);
  split(ctx, static_cast<std::int64_t>(p.batch.row_count) * p.heads, work,
        [&p, scratch](std::int64_t begin, std::int64_t end, int worker) {
          HWY_DYNAMIC_DISPATCH(mla_heads)(p, begin, end, scratch + worker * scratch_floats(p));
        });
}

}  // namespace weir::kernels::cpu
#endif  // HWY_ONCE
