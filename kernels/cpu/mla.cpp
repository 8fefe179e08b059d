#include <algorithm>
#include <cmath>

#include "kernels/cpu/ops.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/mla.cpp"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/tiles-inl.hpp"
#include "kernels/cpu/vec-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::kernels::cpu::HWY_NAMESPACE {

// Rows of the batch and heads that one worker takes at a time: their weights are read once for all rows, and
// a page once for all rows of a sequence.
constexpr std::int64_t k_rows = 8;
constexpr std::int64_t k_heads = 8;
constexpr std::int64_t k_queries = k_rows * k_heads;

// Queries, one for each row and head of the block: [row * k_heads + head].
struct mla_scratch {
  rows_of<float> query;   // [k_queries, R + Dr] absorbed
  rows_of<float> mixed;   // [k_queries, R]
  rows_of<float> scores;  // [k_heads, P]
  float largest[k_queries];
  float total[k_queries];
};

struct mla_block {
  std::int64_t row, row_end;
  std::int64_t head, head_end;

  HWY_INLINE std::int64_t heads() const { return head_end - head; }
  HWY_INLINE std::int64_t rows() const { return row_end - row; }
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

// Takes `count` tokens of a page into the online softmax of one row's heads.
HWY_INLINE void take_page(const mla_params<float>& p, rows_of<const float> page, std::int64_t count,
                          std::int64_t first, std::int64_t heads, mla_scratch& s) {
  const std::int64_t width = p.rank + p.rope_dim;
  const float scale = 1.0F / std::sqrt(static_cast<float>(p.nope_dim + p.rope_dim));
  const rows_of<const float> query{s.query[first], s.query.stride};
  dot_rows(query, heads, page, count, width, s.scores);
  for (std::int64_t h = 0; h < heads; ++h) {
    float* scores = s.scores[h];
    scale_by(scale, scores, count);
    const float before = s.largest[first + h];
    const float largest = std::max(before, *std::max_element(scores, scores + count));
    const float rescale = std::exp(before - largest);
    s.total[first + h] = s.total[first + h] * rescale + exponentiate(scores, count, largest);
    s.largest[first + h] = largest;
    if (rescale != 1.0F) scale_by(rescale, s.mixed[first + h], p.rank);
  }
  mix_rows({s.scores.at, s.scores.stride}, heads, page, p.rank, count, s.mixed.from(first));
}

// Rows [row, end) of the block, all of one sequence, over the pages that they see.
HWY_INLINE void attend(const mla_params<float>& p, const mla_block& block, std::int64_t row, std::int64_t end,
                       mla_scratch& s) {
  const std::int64_t width = p.rank + p.rope_dim;
  const std::int32_t sequence = p.batch.row_sequence[row];
  const sequence_range& seq = p.batch.sequences[sequence];
  const std::int32_t* pages =
      p.batch.block_table + static_cast<std::int64_t>(sequence) * p.batch.table_stride;
  const auto seen = [&seq](std::int64_t r) { return seq.position + (r - seq.row) + 1; };
  for (std::int64_t first = 0; first < seen(end - 1); first += p.page_tokens) {
    const rows_of<const float> page{
        static_cast<const float*>(p.pages) + pages[first / p.page_tokens] * p.page_stride, width};
    for (std::int64_t r = row; r < end; ++r) {
      const std::int64_t here = std::min<std::int64_t>(p.page_tokens, seen(r) - first);
      if (here > 0) take_page(p, page, here, (r - block.row) * k_heads, block.heads(), s);
    }
  }
}

template <class W>
HWY_INLINE void run_block(const mla_params<float>& p, const mla_block& block, mla_scratch& s) {
  const std::int64_t query_dim = p.nope_dim + p.rope_dim;
  const std::int64_t head_rows = p.nope_dim + p.value_dim;
  std::fill_n(s.largest, k_queries, -HUGE_VALF);
  std::fill_n(s.total, k_queries, 0.0F);
  for (std::int64_t h = 0; h < block.heads(); ++h) {
    const W* weights = static_cast<const W*>(p.kv_b.data) + (block.head + h) * head_rows * p.rank;
    for (std::int64_t r = 0; r < block.rows(); ++r) {
      const std::int64_t at = r * k_heads + h;
      std::fill_n(s.query[at], p.rank, 0.0F);
      std::fill_n(s.mixed[at], p.rank, 0.0F);
      const float* q = p.q + ((block.row + r) * p.heads + block.head + h) * query_dim;
      std::copy_n(q + p.nope_dim, p.rope_dim, s.query[at] + p.rank);
    }
    const rows_of<const float> q{p.q + (block.row * p.heads + block.head + h) * query_dim,
                                 p.heads * query_dim};
    mix_rows(q, block.rows(), rows_of<const W>{weights, p.rank}, p.rank, p.nope_dim,
             {s.query[h], s.query.stride * k_heads});
  }
  for (std::int64_t row = block.row; row < block.row_end;) {
    std::int64_t end = row + 1;
    while (end < block.row_end && p.batch.row_sequence[end] == p.batch.row_sequence[row]) ++end;
    attend(p, block, row, end, s);
    row = end;
  }
  for (std::int64_t h = 0; h < block.heads(); ++h) {
    for (std::int64_t r = 0; r < block.rows(); ++r)
      scale_by(1.0F / s.total[r * k_heads + h], s.mixed[r * k_heads + h], p.rank);
    const W* weights = static_cast<const W*>(p.kv_b.data) +
                       ((block.head + h) * head_rows + p.nope_dim) * static_cast<std::int64_t>(p.rank);
    dot_rows({s.mixed[h], s.mixed.stride * k_heads}, block.rows(), rows_of<const W>{weights, p.rank},
             p.value_dim, p.rank,
             {p.o + (block.row * p.heads + block.head + h) * p.value_dim,
              static_cast<std::int64_t>(p.heads) * p.value_dim});
  }
}

std::int64_t mla_head_blocks(const mla_params<float>& p) {
  return (p.heads + k_heads - 1) / k_heads;
}

std::int64_t mla_blocks(const mla_params<float>& p) {
  return (p.batch.row_count + k_rows - 1) / k_rows * mla_head_blocks(p);
}

std::int64_t mla_scratch_floats(const mla_params<float>& p) {
  return k_queries * (2 * static_cast<std::int64_t>(p.rank) + p.rope_dim) + k_heads * p.page_tokens;
}

void mla_range(const mla_params<float>& p, std::int64_t begin, std::int64_t end, float* memory) {
  mla_scratch s{};
  const std::int64_t width = p.rank + p.rope_dim;
  s.query = {memory, width};
  s.mixed = {s.query[k_queries], p.rank};
  s.scores = {s.mixed[k_queries], p.page_tokens};
  for (std::int64_t item = begin; item < end; ++item) {
    const std::int64_t row = item / mla_head_blocks(p) * k_rows;
    const std::int64_t head = item % mla_head_blocks(p) * k_heads;
    const mla_block block{row, std::min<std::int64_t>(row + k_rows, p.batch.row_count), head,
                          std::min<std::int64_t>(head + k_heads, p.heads)};
    switch (p.kv_b.type) {
      case dtype::f32:
        run_block<float>(p, block, s);
        break;
      case dtype::bf16:
        run_block<hwy::bfloat16_t>(p, block, s);
        break;
      case dtype::f16:
        run_block<hwy::float16_t>(p, block, s);
        break;
      case dtype::mxfp4:
      case dtype::int8:
        break;  // never stored so
    }
  }
}

}  // namespace weir::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::kernels::cpu {

HWY_EXPORT(mla_range);
HWY_EXPORT(mla_blocks);
HWY_EXPORT(mla_scratch_floats);

namespace {

// Rounded to a cache line, so that workers do not share one.
std::int64_t scratch_floats(const mla_params<float>& p) {
  return (HWY_DYNAMIC_DISPATCH(mla_scratch_floats)(p) + 15) / 16 * 16;
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
      std::copy_n(from, p.width, static_cast<float*>(p.pages) + page * p.page_stride + row * p.width);
    }
  }
}

void mla(const mla_params<float>& p, const context& ctx) {
  const std::int64_t blocks = HWY_DYNAMIC_DISPATCH(mla_blocks)(p);
  const std::int64_t each = (p.batch.context_max * std::int64_t{2} + p.nope_dim + p.value_dim) * p.rank;
  const std::int64_t work = each * p.batch.row_count * p.heads / std::max<std::int64_t>(blocks, 1);
  float* scratch = reinterpret_cast<float*>(ctx.workspace);
  split(ctx, blocks, work, [&p, scratch](std::int64_t begin, std::int64_t end, int worker) {
    HWY_DYNAMIC_DISPATCH(mla_range)(p, begin, end, scratch + worker * scratch_floats(p));
  });
}

}  // namespace weir::kernels::cpu
#endif  // HWY_ONCE
