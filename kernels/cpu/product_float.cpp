#include "kernels/cpu/products.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/product_float.cpp"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/vec-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::kernels::cpu::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_SSE2 || HWY_TARGET == HWY_AVX2
constexpr int k_tile_rows = 2;  // 16 registers
#else
constexpr int k_tile_rows = 5;  // 32 registers: 20 sums, the weights of four columns, one value
#endif

constexpr int k_streamed_rows = 1;  // up to which a tile reads column after column

// What a step along the depth reads of a column and how it becomes vectors of floats: `parts` of them.
template <class W>
struct single {
  using stored = W;
  static constexpr int parts = 1;
  using raw = vec;
  static HWY_INLINE raw load(const W* p) { return load_wide(p); }
  template <int Part>
  static HWY_INLINE vec part(raw value) {
    return value;
  }
};

// bf16 in pairs: the even ones are the lower halves of 32-bit lanes, the odd ones the upper halves, which
// with the lower half cleared is a float as it stands. The rows are prepared in the same order.
struct pairs {
  using stored = std::uint16_t;
  static constexpr int parts = 2;
  using ints = hn::RebindToUnsigned<floats>;
  using raw = hn::Vec<ints>;
  static HWY_INLINE raw load(const stored* p) {
#if HWY_TARGET == HWY_SCALAR
    std::uint32_t pair;
    std::memcpy(&pair, p, sizeof pair);
    return hn::Set(ints(), pair);
#else
    return hn::BitCast(ints(), hn::LoadU(hn::Repartition<std::uint16_t, floats>(), p));
#endif
  }
  template <int Part>
  static HWY_INLINE vec part(raw value) {
    if constexpr (Part == 0) {
      return hn::BitCast(floats(), hn::ShiftLeft<16>(value));
    } else {
      return hn::BitCast(floats(), hn::And(value, hn::Set(ints(), 0xFFFF0000U)));
    }
  }
};

template <int Rows, int Cols, class Weights, int Part>
HWY_INLINE void add_part(const float* a, std::int64_t row_floats, const typename Weights::raw (&right)[Cols],
                         vec (&sum)[Rows][Cols]) {
  vec wide[Cols];
  HWY_UNROLL(4)
  for (int n = 0; n < Cols; ++n) wide[n] = Weights::template part<Part>(right[n]);
  HWY_UNROLL(8)
  for (int r = 0; r < Rows; ++r) {
    const vec left = hn::LoadU(floats(), a + r * row_floats);
    HWY_UNROLL(4)
    for (int n = 0; n < Cols; ++n) sum[r][n] = hn::MulAdd(left, wide[n], sum[r][n]);
  }
}

template <int Rows, int Cols, class Weights>
HWY_INLINE void add_step(const float* a, std::int64_t row_floats, const typename Weights::raw (&right)[Cols],
                         vec (&sum)[Rows][Cols]) {
  add_part<Rows, Cols, Weights, 0>(a, row_floats, right, sum);
  if constexpr (Weights::parts == 2) {
    add_part<Rows, Cols, Weights, 1>(a + lane_count(), row_floats, right, sum);
  }
}

// One pass along the depth. The sums stay in registers only while nothing else sees them.
template <int Rows, int Cols, class Weights>
HWY_INLINE void multiply(const tile_place& t, std::int64_t first) {
  using W = typename Weights::stored;
  const std::int64_t step = lane_count() * Weights::parts;
  const float* a = reinterpret_cast<const float*>(t.rows);
  const auto row_floats = static_cast<std::int64_t>(t.row_bytes / sizeof(float));
  const W* b = reinterpret_cast<const W*>(t.weights) + first * t.depth;
  const W* ahead = reinterpret_cast<const W*>(t.ahead);
  vec sum[Rows][Cols];
  HWY_UNROLL(8)
  for (int r = 0; r < Rows; ++r) {
    HWY_UNROLL(4)
    for (int n = 0; n < Cols; ++n) sum[r][n] = hn::Zero(floats());
  }
  std::int64_t k = 0;
  for (; k + step <= t.depth; k += step) {
    if constexpr (Cols > 1) {
      for (int n = 0; n < t.ahead_columns; ++n) fetch(ahead + n * t.depth + k);
    }
    typename Weights::raw right[Cols];
    HWY_UNROLL(4)
    for (int n = 0; n < Cols; ++n) right[n] = Weights::load(b + n * t.depth + k);
    add_step<Rows, Cols, Weights>(a + k, row_floats, right, sum);
  }
  if (k < t.depth) {
    typename Weights::raw right[Cols];
    HWY_UNROLL(4)
    for (int n = 0; n < Cols; ++n) {
      W end[2 * hn::MaxLanes(floats())] = {};
      std::memcpy(end, b + n * t.depth + k, static_cast<std::size_t>(t.depth - k) * sizeof(W));
      right[n] = Weights::load(end);
    }
    add_step<Rows, Cols, Weights>(a + k, row_floats, right, sum);
  }
  HWY_UNROLL(8)
  for (int r = 0; r < Rows; ++r) {
    HWY_UNROLL(4)
    for (int n = 0; n < Cols; ++n) t.c[r * t.c_stride + first + n] = sum_lanes(sum[r][n]);
  }
}

template <int Rows, int Cols, class Weights>
HWY_NOINLINE void tile(const tile_place& t) {
  if constexpr (Rows <= k_streamed_rows) {
    for (int n = 0; n < Cols; ++n) multiply<Rows, 1, Weights>(t, n);
  } else {
    multiply<Rows, Cols, Weights>(t, 0);
  }
}

template <class Weights>
void float_columns(const product_range& p, std::int64_t begin, std::int64_t end) {
#define WEIR_TILE_ROW(rows) tile<rows, 1, Weights>, tile<rows, 2, Weights>, tile<rows, 4, Weights>
  static constexpr tile_function functions[] = {
    WEIR_TILE_ROW(1),
    WEIR_TILE_ROW(2),
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_SSE4 && HWY_TARGET != HWY_SSE2 && HWY_TARGET != HWY_AVX2
    WEIR_TILE_ROW(3),
    WEIR_TILE_ROW(4),
    WEIR_TILE_ROW(5),
#endif
  };
#undef WEIR_TILE_ROW
  static_assert(std::size(functions) == 3 * k_tile_rows);
  const auto column_bytes = static_cast<std::int64_t>(p.b->cols * sizeof(typename Weights::stored));
  walk_tiles(p, column_bytes, begin, end, {k_tile_rows, functions});
}

void f32_columns(const product_range& p, std::int64_t begin, std::int64_t end) {
  float_columns<single<float>>(p, begin, end);
}
void f16_columns(const product_range& p, std::int64_t begin, std::int64_t end) {
  float_columns<single<hwy::float16_t>>(p, begin, end);
}
void bf16_columns(const product_range& p, std::int64_t begin, std::int64_t end) {
  float_columns<pairs>(p, begin, end);
}

static_assert(2 * hn::MaxLanes(floats()) <= k_row_pad);

// Each block of two vectors: the even values, then the odd ones; zeros behind the end.
void prepare_pairs(const float* x, std::int64_t depth, float* row) {
  const std::int64_t lanes = lane_count();
  std::int64_t k = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; k + 2 * lanes <= depth; k += 2 * lanes) {
    const vec low = hn::LoadU(floats(), x + k);
    const vec high = hn::LoadU(floats(), x + k + lanes);
    hn::StoreU(hn::ConcatEven(floats(), high, low), floats(), row + k);
    hn::StoreU(hn::ConcatOdd(floats(), high, low), floats(), row + k + lanes);
  }
#endif
  for (; k < depth; k += 2 * lanes) {
    for (std::int64_t i = 0; i < lanes; ++i) {
      row[k + i] = k + 2 * i < depth ? x[k + 2 * i] : 0.0F;
      row[k + lanes + i] = k + 2 * i + 1 < depth ? x[k + 2 * i + 1] : 0.0F;
    }
  }
}

}  // namespace weir::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::kernels::cpu {

HWY_EXPORT(f32_columns);
HWY_EXPORT(f16_columns);
HWY_EXPORT(bf16_columns);
HWY_EXPORT(prepare_pairs);

namespace {}  // namespace

std::size_t float_row_bytes(std::int64_t depth) {
  return row_stride(static_cast<std::size_t>((depth + k_row_pad - 1) / k_row_pad * k_row_pad) *
                    sizeof(float));
}

void prepare_float(const float* x, std::int64_t depth, std::byte* row) {
  float* to = reinterpret_cast<float*>(row);
  std::memcpy(to, x, static_cast<std::size_t>(depth) * sizeof(float));
  std::memset(to + depth, 0, float_row_bytes(depth) - static_cast<std::size_t>(depth) * sizeof(float));
}

void prepare_float_pairs(const float* x, std::int64_t depth, std::byte* row) {
  HWY_DYNAMIC_DISPATCH(prepare_pairs)(x, depth, reinterpret_cast<float*>(row));
}

void prepare_rounded_pairs(const float* x, std::int64_t depth, std::byte* row) {
  constexpr std::int64_t block = 2 * k_row_pad;
  float rounded[block];
  float* to = reinterpret_cast<float*>(row);
  for (std::int64_t k = 0; k < depth; k += block) {
    const std::int64_t count = std::min(block, depth - k);
    for (std::int64_t i = 0; i < count; ++i) rounded[i] = bf16_to_float(float_to_bf16(x[k + i]));
    prepare_float_pairs(rounded, count, reinterpret_cast<std::byte*>(to + k));
  }
}

void f32_columns(const product_range& p, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(f32_columns)(p, begin, end);
}
void f16_columns(const product_range& p, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(f16_columns)(p, begin, end);
}
void bf16_columns(const product_range& p, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(bf16_columns)(p, begin, end);
}

}  // namespace weir::kernels::cpu
#endif  // HWY_ONCE
