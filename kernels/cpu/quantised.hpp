// Rows of activations in 8 bits, beside int8 and MXFP4 weights: codes -127..127 with a float scale per group
// of the weights' size. Pure functions; any thread.
//
// A prepared row: codes, then scales (of MXFP4 halved, as its codes are doubled), then for each group the
// correction that makes products of unsigned weights signed: minus the weights' offset times the sum of the
// codes. MXFP4 codes lie as their weights are unpacked: of each 128 values the even ones, then the odd ones.
// Scales and corrections come in blocks of 16 groups, zeros behind the last, and in MXFP4 blocks as a 4 x 4
// matrix on its side, the order that sums of lanes come out in.
//
// What an output is, for every implementation: the sum within a group in integers, exactly; times the product
// of both scales in float32, added to the partial sum of the group's place; and the partial sums added in
// pairs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/product.hpp"

namespace weir::kernels::cpu {

inline constexpr std::int64_t k_scale_block = 16;  // groups

struct int8_format {
  static constexpr std::int64_t group = k_int8_group;
  static constexpr std::int64_t group_bytes = group;
  static constexpr std::int64_t parts = 4;
  static constexpr int offset = 128;                 // makes a weight unsigned
  static constexpr std::int64_t line_values = 64;    // that a line of 64 stored bytes holds
  static constexpr float scale_factor = 1.0F / 127;  // of a group's largest magnitude
  static constexpr std::int64_t scale_place(std::int64_t g) { return g; }
  static constexpr std::int64_t group_of_part(std::int64_t part) { return part; }  // the first one
};

struct mxfp4_format {
  static constexpr std::int64_t group = k_mxfp4_group;
  static constexpr std::int64_t group_bytes = group / 2;
  static constexpr std::int64_t parts = 16;
  static constexpr int offset = 12;
  static constexpr std::int64_t line_values = 128;
  static constexpr float scale_factor = 0.5F / 127;
  static constexpr std::int64_t scale_place(std::int64_t g) { return g / 16 * 16 + g % 4 * 4 + g / 4 % 4; }
  static constexpr std::int64_t group_of_part(std::int64_t part) { return part % 4 * 4 + part / 4; }
};

// Where the parts of a prepared row begin, in bytes.
template <class Format>
struct quantised_layout {
  std::size_t scales, corrections, end;

  explicit constexpr quantised_layout(std::int64_t depth) {
    const std::int64_t lines = (depth + Format::line_values - 1) / Format::line_values;
    const std::int64_t blocks = (depth / Format::group + k_scale_block - 1) / k_scale_block;
    scales = static_cast<std::size_t>(lines * Format::line_values);
    corrections = scales + static_cast<std::size_t>(blocks * k_scale_block) * sizeof(float);
    end = row_stride(corrections + static_cast<std::size_t>(blocks * k_scale_block) * sizeof(std::int32_t));
  }
};

// A group's largest magnitude below this is taken for nothing: its inverse would not be finite.
inline constexpr float k_smallest_peak = 1e-30F;

}  // namespace weir::kernels::cpu
