#include "kernels/cpu/ops.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm_mxfp4.cpp"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/vec-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::kernels::cpu::HWY_NAMESPACE {

constexpr int k_mxfp4_rows = 4;  // rows that share one unpacking
constexpr std::int64_t k_group_bytes = k_mxfp4_group / 2;

// No wider than a group, however long this machine's vectors are.
using group_floats = hn::CappedTag<float, k_mxfp4_group>;
using group_vec = hn::Vec<group_floats>;

// A group's codes as doubled values, in element order.
HWY_INLINE void unpack(const std::uint8_t* codes, std::int8_t* doubled) {
#if HWY_TARGET == HWY_SCALAR
  for (std::int64_t i = 0; i < k_group_bytes; ++i) {
    doubled[2 * i] = k_e2m1_doubled[codes[i] & 15U];
    doubled[2 * i + 1] = k_e2m1_doubled[codes[i] >> 4U];
  }
#else
  const hn::FixedTag<std::uint8_t, k_group_bytes> bytes;
  const hn::FixedTag<std::int8_t, k_group_bytes> values;
  const auto table = hn::LoadU(values, k_e2m1_doubled);
  const auto pairs = hn::LoadU(bytes, codes);
  const auto even = hn::And(pairs, hn::Set(bytes, 15));
  // Bytes have no shift of their own everywhere.
  const hn::RepartitionToWide<decltype(bytes)> words;
  const auto shifted = hn::BitCast(bytes, hn::ShiftRight<4>(hn::BitCast(words, pairs)));
  const auto odd = hn::And(shifted, hn::Set(bytes, 15));
  const auto low = hn::TableLookupBytes(table, hn::BitCast(values, even));
  const auto high = hn::TableLookupBytes(table, hn::BitCast(values, odd));
  hn::Store(hn::InterleaveLower(values, low, high), values, doubled);
  hn::Store(hn::InterleaveUpper(values, low, high), values, doubled + k_group_bytes);
#endif
}

// Sums within a group run over the doubled values; the group's scale, halved, multiplies its sum.
template <int Rows>
HWY_INLINE void packed_tile(const gemm_params<float>& p, std::int64_t row, std::int64_t column) {
  const group_floats wide;
  const hn::Rebind<std::int32_t, group_floats> ints;
  const hn::Rebind<std::int8_t, group_floats> bytes;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(wide));
  const std::int64_t depth = p.b.cols;
  const std::int64_t groups = depth / k_mxfp4_group;
  const float* a = p.a + row * depth;
  const std::uint8_t* codes = static_cast<const std::uint8_t*>(p.b.data) + column * groups * k_group_bytes;
  const std::uint8_t* scales = p.b.exponents() + column * groups;
  group_vec total[Rows];
  HWY_UNROLL(4)
  for (int r = 0; r < Rows; ++r) total[r] = hn::Zero(wide);
  for (std::int64_t group = 0; group < groups; ++group) {
    HWY_ALIGN std::int8_t doubled[k_mxfp4_group];
    unpack(codes + group * k_group_bytes, doubled);
    group_vec sum[Rows];
    HWY_UNROLL(4)
    for (int r = 0; r < Rows; ++r) sum[r] = hn::Zero(wide);
    for (std::int64_t i = 0; i < k_mxfp4_group; i += lanes) {
      const group_vec weight = hn::ConvertTo(wide, hn::PromoteTo(ints, hn::LoadU(bytes, doubled + i)));
      HWY_UNROLL(4)
      for (int r = 0; r < Rows; ++r) {
        sum[r] = hn::MulAdd(hn::LoadU(wide, a + r * depth + group * k_mxfp4_group + i), weight, sum[r]);
      }
    }
    const group_vec scale = hn::Set(wide, 0.5F * e8m0_to_float(scales[group]));
    HWY_UNROLL(4)
    for (int r = 0; r < Rows; ++r) total[r] = hn::MulAdd(scale, sum[r], total[r]);
  }
  HWY_UNROLL(4)
  for (int r = 0; r < Rows; ++r) {
    p.c[(row + r) * p.b.rows + column] = hn::GetLane(hn::SumOfLanes(wide, total[r]));
  }
}

void packed_columns(const gemm_params<float>& p, std::int64_t begin, std::int64_t end) {
  for (std::int64_t column = begin; column < end; ++column) {
    std::int64_t row = 0;
    for (; row + k_mxfp4_rows <= p.rows; row += k_mxfp4_rows) packed_tile<k_mxfp4_rows>(p, row, column);
    for (; row < p.rows; ++row) packed_tile<1>(p, row, column);
  }
}

}  // namespace weir::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::kernels::cpu {

HWY_EXPORT(packed_columns);

void gemm_mxfp4(const gemm_params<float>& p, const context& ctx) {
  const std::int64_t work = static_cast<std::int64_t>(p.rows) * p.b.cols;
  split(ctx, p.b.rows, work, [&p](std::int64_t begin, std::int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(packed_columns)(p, begin, end);
  });
}

}  // namespace weir::kernels::cpu
#endif  // HWY_ONCE
