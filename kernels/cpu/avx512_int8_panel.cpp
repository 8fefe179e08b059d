// Many rows against int8 and MXFP4 weights: sixteen columns are unpacked once and laid side by side, so that
// a vector holds four successive weights of each, and all rows pass over them with nothing to be added up
// across lanes. Unpacking costs about as much as three rows do.
#include "kernels/cpu/avx512_int8.hpp"
#include "kernels/cpu/products.hpp"

#if defined(__x86_64__)

#include <algorithm>

namespace weir::kernels::cpu {

namespace {

constexpr int k_panel_rows = 8;       // 8 sums in integers, 8 in floats
constexpr std::int64_t k_fours = 16;  // fours of bytes in a vector
constexpr std::int64_t k_square = k_fours * k_vector_bytes;

// Sixteen vectors of sixteen 32-bit values on their side.
WEIR_AVX512_INLINE void transpose(__m512i (&v)[16], std::byte* to) {
  __m512i t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    v[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    v[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    v[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    v[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  // Now v[4 a + b] holds, in quarter c, value 4 c + b of vectors 4 a to 4 a + 3.
#pragma GCC unroll 4
  for (int b = 0; b < 4; ++b) {
    const __m512i low01 = _mm512_shuffle_i32x4(v[b], v[4 + b], 0x88);
    const __m512i low23 = _mm512_shuffle_i32x4(v[8 + b], v[12 + b], 0x88);
    const __m512i high01 = _mm512_shuffle_i32x4(v[b], v[4 + b], 0xDD);
    const __m512i high23 = _mm512_shuffle_i32x4(v[8 + b], v[12 + b], 0xDD);
    _mm512_store_si512(to + b * k_vector_bytes, _mm512_shuffle_i32x4(low01, low23, 0x88));
    _mm512_store_si512(to + (4 + b) * k_vector_bytes, _mm512_shuffle_i32x4(high01, high23, 0x88));
    _mm512_store_si512(to + (8 + b) * k_vector_bytes, _mm512_shuffle_i32x4(low01, low23, 0xDD));
    _mm512_store_si512(to + (12 + b) * k_vector_bytes, _mm512_shuffle_i32x4(high01, high23, 0xDD));
  }
}

template <class Format>
struct panel {
  std::byte* weights;  // [vectors, 16 fours, 16 columns] of four bytes
  float* scales;       // [groups, 16 columns], whole blocks of groups
  std::int64_t groups;

  panel(const product_range& p, std::int64_t depth)
      : weights(p.scratch),
        scales(reinterpret_cast<float*>(p.scratch + quantised_layout<Format>(depth).scales * k_panel_cols)),
        groups(depth / Format::group) {}
};

// Scales of the first `count` of sixteen groups.
WEIR_AVX512_INLINE __m512i scales_at(const matrix& b, std::int64_t index, std::int64_t count) {
  const __mmask16 there = first_lanes(count);
  if (b.type == dtype::int8) return _mm512_castps_si512(_mm512_maskz_loadu_ps(there, b.factors() + index));
  return _mm512_castps_si512(e8m0_scales(_mm_maskz_loadu_epi8(there, b.exponents() + index)));
}

// Columns behind the last one are copies of it.
template <class Format>
WEIR_AVX512 void fill(const panel<Format>& to, const product_range& p, std::int64_t column,
                      std::int64_t end) {
  const std::int64_t row_bytes = to.groups * Format::group_bytes;
  const std::byte* lines[k_panel_cols];
  for (std::int64_t n = 0; n < k_panel_cols; ++n) {
    const std::int64_t from = std::min(column + n, end - 1);
    lines[n] = static_cast<const std::byte*>(p.b->data) + from * row_bytes;
  }
  for (std::int64_t g = 0; g < to.groups; g += k_scale_block) {
    __m512i scales[k_panel_cols];
    for (std::int64_t n = 0; n < k_panel_cols; ++n) {
      scales[n] = scales_at(*p.b, std::min(column + n, end - 1) * to.groups + g, to.groups - g);
    }
    transpose(scales, reinterpret_cast<std::byte*>(to.scales + g * k_panel_cols));
  }
  std::byte* square = to.weights;
  for (std::int64_t at = 0; at < row_bytes; at += k_vector_bytes) {
    unpacked<Format> columns[k_panel_cols];
    for (int n = 0; n < k_panel_cols; ++n) columns[n].load(lines[n] + at, row_bytes - at);
    for (int i = 0; i < unpacked<Format>::count; ++i) {
      __m512i vectors[k_panel_cols];
      for (int n = 0; n < k_panel_cols; ++n) vectors[n] = columns[n].vectors[i];
      transpose(vectors, square);
      square += k_square;
    }
  }
}

// Adds one group's products. Its fours lie together in a vector, or half of them in each of two.
template <class Format, int Rows>
WEIR_AVX512_INLINE void add_group(const product_range& p, const panel<Format>& w,
                                  const quantised_layout<Format>& at, const std::byte* rows, std::int64_t g,
                                  __m512 (&total)[Rows]) {
  constexpr bool whole = Format::group == k_int8_group;
  constexpr std::int64_t fours = whole ? 16 : 4;
  const std::int64_t place = Format::scale_place(g);
  __m512i sum[Rows];
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
    const std::byte* row = rows + static_cast<std::size_t>(r) * p.row_bytes;
    sum[r] = _mm512_set1_epi32(reinterpret_cast<const std::int32_t*>(row + at.corrections)[place]);
  }
  std::int64_t first = whole ? g * k_fours : g / 4 * 2 * k_fours + g % 4 * fours;
  for (int half = 0; half < (whole ? 1 : 2); ++half, first += k_fours) {
#pragma GCC unroll 4
    for (std::int64_t i = first; i < first + fours; ++i) {
      const __m512i weights = _mm512_load_si512(w.weights + i * k_vector_bytes);
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) {
        const std::byte* row = rows + static_cast<std::size_t>(r) * p.row_bytes;
        sum[r] = _mm512_dpbusd_epi32(sum[r], weights,
                                     _mm512_set1_epi32(reinterpret_cast<const std::int32_t*>(row)[i]));
      }
    }
  }
  const __m512 scale = _mm512_load_ps(w.scales + g * k_panel_cols);
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
    const std::byte* row = rows + static_cast<std::size_t>(r) * p.row_bytes;
    const __m512 both =
        _mm512_mul_ps(_mm512_set1_ps(reinterpret_cast<const float*>(row + at.scales)[place]), scale);
    total[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[r]), both, total[r]);
  }
}

// Each partial sum by itself, in the order that single rows are added up in.
template <class Format>
WEIR_AVX512_INLINE __m512 add_up(const __m512 (*parts)[k_panel_rows], int r) {
  if constexpr (Format::parts == 4) {
    return _mm512_add_ps(_mm512_add_ps(parts[0][r], parts[1][r]), _mm512_add_ps(parts[2][r], parts[3][r]));
  } else {
    __m512 half[8];
    for (int i = 0; i < 8; ++i) half[i] = _mm512_add_ps(parts[i][r], parts[i + 8][r]);
    for (int i = 0; i < 4; ++i) half[i] = _mm512_add_ps(half[i], half[i + 4]);
    return _mm512_add_ps(_mm512_add_ps(half[0], half[2]), _mm512_add_ps(half[1], half[3]));
  }
}

// `ahead`: the next panel's weights, fetched meanwhile; may be null.
template <class Format, int Rows>
WEIR_AVX512 void multiply(const product_range& p, const panel<Format>& w, std::int64_t first_row,
                          std::int64_t column, std::int64_t end, const std::byte* ahead) {
  constexpr std::int64_t fetched = k_panel_cols * Format::group_bytes;  // for each group
  const quantised_layout<Format> at(p.b->cols);
  const std::byte* rows = p.rows + static_cast<std::size_t>(first_row) * p.row_bytes;
  __m512 parts[Format::parts][k_panel_rows];
  for (std::int64_t part = 0; part < Format::parts; ++part) {
    __m512 total[Rows];
    for (auto& t : total) t = _mm512_setzero_ps();
    for (std::int64_t g = Format::group_of_part(part); g < w.groups; g += Format::parts) {
      add_group<Format, Rows>(p, w, at, rows, g, total);
      if (ahead == nullptr) continue;
      for (std::int64_t i = 0; i < fetched; i += k_vector_bytes) fetch(ahead + i);
      ahead += fetched;
    }
    for (int r = 0; r < Rows; ++r) parts[part][r] = total[r];
  }
  const __mmask16 there = first_lanes(end - column);
  for (int r = 0; r < Rows; ++r) {
    _mm512_mask_storeu_ps(p.c + (first_row + r) * p.c_stride + column, there, add_up<Format>(parts, r));
  }
}

template <class Format>
void columns(const product_range& p, std::int64_t column, std::int64_t end) {
  using function = void (*)(const product_range&, const panel<Format>&, std::int64_t, std::int64_t,
                            std::int64_t, const std::byte*);
  static constexpr function functions[k_panel_rows] = {
      multiply<Format, 1>, multiply<Format, 2>, multiply<Format, 3>, multiply<Format, 4>,
      multiply<Format, 5>, multiply<Format, 6>, multiply<Format, 7>, multiply<Format, 8>};
  const panel<Format> w(p, p.b->cols);
  fill(w, p, column, end);
  const std::int64_t next = column + k_panel_cols;
  const std::byte* ahead = static_cast<const std::byte*>(p.b->data) + next * w.groups * Format::group_bytes;
  const std::int64_t tiles = (p.row_count + k_panel_rows - 1) / k_panel_rows;
  for (std::int64_t i = 0; i < tiles; ++i) {
    const std::int64_t row = p.row_count * i / tiles;
    functions[p.row_count * (i + 1) / tiles - row - 1](p, w, row, column, end,
                                                       i == 0 && next < end ? ahead : nullptr);
  }
}

}  // namespace

// MXFP4 has the longer lines and the smaller groups.
std::size_t panel_bytes(std::int64_t depth) {
  const quantised_layout<mxfp4_format> row(depth);
  return row.corrections * k_panel_cols;
}

void int8_panel(const product_range& p, std::int64_t column, std::int64_t end) {
  columns<int8_format>(p, column, end);
}
void mxfp4_panel(const product_range& p, std::int64_t column, std::int64_t end) {
  columns<mxfp4_format>(p, column, end);
}

}  // namespace weir::kernels::cpu

#endif
