// Shared by the two bodies of avx512_int8: how a line of stored weights becomes vectors of unsigned bytes,
// whose dot products with signed ones the processor has. For functions of the same target.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include "kernels/cpu/quantised.hpp"

#define WEIR_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma")))
#define WEIR_AVX512_INLINE WEIR_AVX512 __attribute__((always_inline)) inline

namespace weir::kernels::cpu {

inline constexpr std::int64_t k_vector_bytes = 64;

// Vectors of bytes that a line of stored ones becomes, in the order of prepared codes. `left`: bytes of the
// row from the line's begin on; those behind are not read.
template <class Format>
struct unpacked;

template <>
struct unpacked<int8_format> {
  static constexpr int count = 1;
  __m512i vectors[count];

  WEIR_AVX512_INLINE void load(const std::byte* line, std::int64_t) {
    vectors[0] = _mm512_xor_si512(_mm512_loadu_si512(line), _mm512_set1_epi8(-128));
  }
};

template <>
struct unpacked<mxfp4_format> {
  static constexpr int count = 2;
  __m512i vectors[count];

  WEIR_AVX512_INLINE void load(const std::byte* line, std::int64_t left) {
    // Doubled values and the offset.
    const __m512i values =
        _mm512_broadcast_i32x4(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m512i nibble = _mm512_set1_epi8(15);
    const __m512i codes = left >= k_vector_bytes ? _mm512_loadu_si512(line)
                                                 : _mm512_maskz_loadu_epi8((__mmask64{1} << left) - 1, line);
    vectors[0] = _mm512_shuffle_epi8(values, _mm512_and_si512(codes, nibble));
    vectors[1] = _mm512_shuffle_epi8(values, _mm512_and_si512(_mm512_srli_epi16(codes, 4), nibble));
  }
};

// Four vectors' sums within each quarter: in each quarter those of the four, in order.
WEIR_AVX512_INLINE __m512i quarter_sums(__m512i a, __m512i b, __m512i c, __m512i d) {
  const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
  return _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}

constexpr __mmask16 first_lanes(std::int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xFFFFU : (1U << count) - 1);
}

// As e8m0_to_float.
WEIR_AVX512_INLINE __m512 e8m0_scales(__m128i exponents) {
  const __m512i wide = _mm512_cvtepu8_epi32(exponents);
  const __mmask16 number = _mm512_cmpneq_epi32_mask(wide, _mm512_set1_epi32(255));
  const __m512i bits = _mm512_maskz_slli_epi32(number, wide, 23);
  // 2^-127 is below the normal numbers.
  const __mmask16 least = _mm512_cmpeq_epi32_mask(wide, _mm512_setzero_si512());
  return _mm512_castsi512_ps(_mm512_mask_mov_epi32(bits, least, _mm512_set1_epi32(0x00400000)));
}

// Columns [column, column + k_panel_cols) of all rows by way of a panel in p.scratch; fewer where p.b ends.
inline constexpr std::int64_t k_panel_cols = 16;
void int8_panel(const product_range& p, std::int64_t column, std::int64_t end);
void mxfp4_panel(const product_range& p, std::int64_t column, std::int64_t end);

}  // namespace weir::kernels::cpu

#endif
