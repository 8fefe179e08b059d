#include "kernels/cpu/products.hpp"

#include <iterator>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/product_grouped.cpp"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/vec-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::kernels::cpu::HWY_NAMESPACE {

constexpr int k_grouped_rows = 4;  // rows that share one unpacking

// No wider than the smaller group, however long this machine's vectors are.
using group_floats = hn::CappedTag<float, k_mxfp4_group>;
using group_vec = hn::Vec<group_floats>;

struct int8_weights {
  static constexpr std::int64_t group = k_int8_group;
  static constexpr std::int64_t group_bytes = group;
  static HWY_INLINE const std::int8_t* values(const std::byte* codes, std::int8_t*) {
    return reinterpret_cast<const std::int8_t*>(codes);
  }
  static HWY_INLINE float scale(const matrix& b, std::int64_t index) { return b.factors()[index]; }
};

struct mxfp4_weights {
  static constexpr std::int64_t group = k_mxfp4_group;
  static constexpr std::int64_t group_bytes = group / 2;

  // A group's codes as doubled values, in element order.
  static HWY_INLINE const std::int8_t* values(const std::byte* codes, std::int8_t* doubled) {
    const auto* from = reinterpret_cast<const std::uint8_t*>(codes);
#if HWY_TARGET == HWY_SCALAR
    for (std::int64_t i = 0; i < group_bytes; ++i) {
      doubled[2 * i] = k_e2m1_doubled[from[i] & 15U];
      doubled[2 * i + 1] = k_e2m1_doubled[from[i] >> 4U];
    }
#else
    const hn::FixedTag<std::uint8_t, group_bytes> bytes;
    const hn::FixedTag<std::int8_t, group_bytes> values;
    const auto table = hn::LoadU(values, k_e2m1_doubled);
    const auto pairs = hn::LoadU(bytes, from);
    const auto even = hn::And(pairs, hn::Set(bytes, 15));
    // Bytes have no shift of their own everywhere.
    const hn::RepartitionToWide<decltype(bytes)> words;
    const auto shifted = hn::BitCast(bytes, hn::ShiftRight<4>(hn::BitCast(words, pairs)));
    const auto odd = hn::And(shifted, hn::Set(bytes, 15));
    const auto low = hn::TableLookupBytes(table, hn::BitCast(values, even));
    const auto high = hn::TableLookupBytes(table, hn::BitCast(values, odd));
    hn::Store(hn::InterleaveLower(values, low, high), values, doubled);
    hn::Store(hn::InterleaveUpper(values, low, high), values, doubled + group_bytes);
#endif
    return doubled;
  }
  static HWY_INLINE float scale(const matrix& b, std::int64_t index) {
    return 0.5F * e8m0_to_float(b.exponents()[index]);
  }
};

// Sums within a group run over the integers; the group's scale multiplies its sum.
template <int Rows, class Weights>
HWY_INLINE void grouped_column(const tile_place& t, std::int64_t n, float* c) {
  const group_floats wide;
  const hn::Rebind<std::int32_t, group_floats> ints;
  const hn::Rebind<std::int8_t, group_floats> bytes;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(wide));
  const std::int64_t groups = t.depth / Weights::group;
  const float* a = reinterpret_cast<const float*>(t.rows);
  const auto row_floats = static_cast<std::int64_t>(t.row_bytes / sizeof(float));
  const std::byte* codes = t.weights + n * t.column_bytes;
  group_vec total[Rows];
  HWY_UNROLL(4)
  for (int r = 0; r < Rows; ++r) total[r] = hn::Zero(wide);
  for (std::int64_t g = 0; g < groups; ++g) {
    HWY_ALIGN std::int8_t unpacked[Weights::group];
    const std::int8_t* values = Weights::values(codes + g * Weights::group_bytes, unpacked);
    group_vec sum[Rows];
    HWY_UNROLL(4)
    for (int r = 0; r < Rows; ++r) sum[r] = hn::Zero(wide);
    for (std::int64_t i = 0; i < Weights::group; i += lanes) {
      const group_vec weight = hn::ConvertTo(wide, hn::PromoteTo(ints, hn::LoadU(bytes, values + i)));
      HWY_UNROLL(4)
      for (int r = 0; r < Rows; ++r) {
        sum[r] = hn::MulAdd(hn::LoadU(wide, a + r * row_floats + g * Weights::group + i), weight, sum[r]);
      }
    }
    const group_vec scale = hn::Set(wide, Weights::scale(*t.b, (t.column + n) * groups + g));
    HWY_UNROLL(4)
    for (int r = 0; r < Rows; ++r) total[r] = hn::MulAdd(scale, sum[r], total[r]);
  }
  HWY_UNROLL(4)
  for (int r = 0; r < Rows; ++r) c[r * t.c_stride] = hn::GetLane(hn::SumOfLanes(wide, total[r]));
}

template <int Rows, int Cols, class Weights>
HWY_NOINLINE void grouped_tile(const tile_place& t) {
  for (int n = 0; n < Cols; ++n) grouped_column<Rows, Weights>(t, n, t.c + n);
}

template <class Weights>
void grouped_columns(const product_range& p, std::int64_t begin, std::int64_t end) {
#define WEIR_TILE_ROW(rows) \
  grouped_tile<rows, 1, Weights>, grouped_tile<rows, 2, Weights>, grouped_tile<rows, 4, Weights>
  static constexpr tile_function functions[] = {WEIR_TILE_ROW(1), WEIR_TILE_ROW(2), WEIR_TILE_ROW(3),
                                                WEIR_TILE_ROW(4)};
#undef WEIR_TILE_ROW
  static_assert(std::size(functions) == 3 * k_grouped_rows);
  walk_tiles(p, p.b->cols / Weights::group * Weights::group_bytes, begin, end, {k_grouped_rows, functions});
}

void grouped_int8(const product_range& p, std::int64_t begin, std::int64_t end) {
  grouped_columns<int8_weights>(p, begin, end);
}
void grouped_mxfp4(const product_range& p, std::int64_t begin, std::int64_t end) {
  grouped_columns<mxfp4_weights>(p, begin, end);
}

}  // namespace weir::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::kernels::cpu {

HWY_EXPORT(grouped_int8);
HWY_EXPORT(grouped_mxfp4);

void int8_columns(const product_range& p, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(grouped_int8)(p, begin, end);
}
void mxfp4_columns(const product_range& p, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(grouped_mxfp4)(p, begin, end);
}

}  // namespace weir::kernels::cpu
#endif  // HWY_ONCE
