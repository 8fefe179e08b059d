// Matrix products in two steps: each row of activations is prepared once (rounded, rearranged, quantised),
// and columns are then multiplied from the prepared rows and the weights as stored. A product is the choice
// of both steps for a weight format and an activation format on this machine.
//
// Invariant: an output depends on its own row and column alone, bit for bit, however many rows there are and
// whoever else computes which columns. Any thread; a call writes only its own columns.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/params.hpp"
#include "kernels/table.hpp"

namespace weir::kernels::cpu {

inline constexpr std::int64_t k_column_unit =
    32;  // work is split at its multiples: whole tiles of every product
inline constexpr std::size_t k_line_bytes = 64;

constexpr std::size_t whole_lines(std::size_t bytes) {
  return (bytes + k_line_bytes - 1) / k_line_bytes * k_line_bytes;
}

// Whole lines, and an odd number of them: rows whose distance is a power of two would contend for a few
// places of the first-level cache.
constexpr std::size_t row_stride(std::size_t bytes) {
  return whole_lines(bytes) | k_line_bytes;
}

struct product_range {
  const std::byte* rows;  // prepared, row_bytes apart
  std::size_t row_bytes;
  std::int64_t row_count;
  const matrix* b;
  float* c;  // [row_count, c_stride]
  std::int64_t c_stride;
  std::byte* scratch;  // the calling worker's own, scratch_bytes
};

struct product {
  // Bytes of a prepared row of `depth` values: whole lines.
  std::size_t (*row_bytes)(std::int64_t depth);
  std::size_t (*scratch_bytes)(std::int64_t depth);  // whole lines, for each worker
  void (*prepare)(const float* x, std::int64_t depth, std::byte* row);
  // Columns [begin, end). REQUIRES: begin a multiple of k_column_unit.
  void (*columns)(const product_range& p, std::int64_t begin, std::int64_t end);
};

product product_of(dtype weights, activation_format activations) noexcept;

// Rows that are multiplied with a block of weights while both stay in the second-level cache.
std::int64_t block_rows(std::size_t row_bytes, std::int64_t rows) noexcept;

}  // namespace weir::kernels::cpu
