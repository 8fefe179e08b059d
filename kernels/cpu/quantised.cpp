#include "kernels/cpu/quantised.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/cpu/products.hpp"

namespace weir::kernels::cpu {

namespace {

// Largest magnitude; a NaN is larger than all.
float peak_of(const float* x, std::int64_t count) {
  std::uint32_t most = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    most = std::max(most, std::bit_cast<std::uint32_t>(x[i]) & 0x7FFFFFFFU);
  }
  return std::bit_cast<float>(most);
}

// Place of value `i` of group `g` among the codes of a row.
template <class Format>
std::int64_t code_place(std::int64_t g, std::int64_t i) {
  if constexpr (Format::group == k_int8_group) return g * Format::group + i;
  return g / 4 * Format::line_values + i % 2 * 64 + g % 4 * 16 + i / 2;
}

template <class Format>
void quantise(const float* x, std::int64_t depth, std::byte* row) {
  const quantised_layout<Format> at(depth);
  std::memset(row, 0, at.end);
  auto* codes = reinterpret_cast<std::int8_t*>(row);
  auto* scales = reinterpret_cast<float*>(row + at.scales);
  auto* corrections = reinterpret_cast<std::int32_t*>(row + at.corrections);
  for (std::int64_t g = 0; g < depth / Format::group; ++g) {
    const float* from = x + g * Format::group;
    const float peak = peak_of(from, Format::group);
    const std::int64_t place = Format::scale_place(g);
    scales[place] = peak * Format::scale_factor;
    if (!std::isfinite(peak) || peak < k_smallest_peak) continue;
    const float inverse = 127.0F / peak;
    std::int32_t sum = 0;
    for (std::int64_t i = 0; i < Format::group; ++i) {
      const auto code = static_cast<std::int8_t>(std::lrint(from[i] * inverse));
      codes[code_place<Format>(g, i)] = code;
      sum += code;
    }
    corrections[place] = -Format::offset * sum;
  }
}

// A column's weights as integers.
std::int32_t weight_of(const matrix& b, std::int64_t column, std::int64_t k) {
  const std::int64_t index = column * b.cols + k;
  if (b.type == dtype::int8) return static_cast<const std::int8_t*>(b.data)[index];
  const std::uint8_t pair = static_cast<const std::uint8_t*>(b.data)[index / 2];
  return k_e2m1_doubled[k % 2 == 0 ? pair & 15U : pair >> 4U];
}

float scale_of(const matrix& b, std::int64_t index) {
  return b.type == dtype::int8 ? b.factors()[index] : e8m0_to_float(b.exponents()[index]);
}

// The sums of lanes, as the vector bodies add them.
template <std::int64_t Parts>
float add_up(const float (&parts)[Parts]) {
  if constexpr (Parts == 4) return (parts[0] + parts[1]) + (parts[2] + parts[3]);
  float half[8];
  for (int i = 0; i < 8; ++i) half[i] = parts[i] + parts[i + 8];
  return ((half[0] + half[4]) + (half[2] + half[6])) + ((half[1] + half[5]) + (half[3] + half[7]));
}

template <class Format>
float output(const product_range& p, const std::byte* row, std::int64_t column) {
  const std::int64_t depth = p.b->cols;
  const std::int64_t groups = depth / Format::group;
  const quantised_layout<Format> at(depth);
  const auto* codes = reinterpret_cast<const std::int8_t*>(row);
  const auto* scales = reinterpret_cast<const float*>(row + at.scales);
  float parts[Format::parts] = {};
  for (std::int64_t g = 0; g < groups; ++g) {
    std::int32_t sum = 0;
    for (std::int64_t i = 0; i < Format::group; ++i) {
      sum += codes[code_place<Format>(g, i)] * weight_of(*p.b, column, g * Format::group + i);
    }
    const float scale = scales[Format::scale_place(g)] * scale_of(*p.b, column * groups + g);
    parts[Format::scale_place(g) % Format::parts] += static_cast<float>(sum) * scale;
  }
  return add_up(parts);
}

template <class Format>
void outputs(const product_range& p, std::int64_t begin, std::int64_t end) {
  for (std::int64_t column = begin; column < end; ++column) {
    for (std::int64_t row = 0; row < p.row_count; ++row) {
      p.c[row * p.c_stride + column] =
          output<Format>(p, p.rows + static_cast<std::size_t>(row) * p.row_bytes, column);
    }
  }
}

}  // namespace

std::size_t int8_row_bytes(std::int64_t depth) {
  return quantised_layout<int8_format>(depth).end;
}
std::size_t mxfp4_row_bytes(std::int64_t depth) {
  return quantised_layout<mxfp4_format>(depth).end;
}
void prepare_int8(const float* x, std::int64_t depth, std::byte* row) {
  quantise<int8_format>(x, depth, row);
}
void prepare_mxfp4(const float* x, std::int64_t depth, std::byte* row) {
  quantise<mxfp4_format>(x, depth, row);
}
void quantised_int8_columns(const product_range& p, std::int64_t begin, std::int64_t end) {
  outputs<int8_format>(p, begin, end);
}
void quantised_mxfp4_columns(const product_range& p, std::int64_t begin, std::int64_t end) {
  outputs<mxfp4_format>(p, begin, end);
}

}  // namespace weir::kernels::cpu
