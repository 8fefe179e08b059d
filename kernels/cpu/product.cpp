#include "kernels/cpu/product.hpp"

#include <algorithm>

#include "kernels/cpu/features.hpp"
#include "kernels/cpu/products.hpp"

namespace weir::kernels::cpu {

namespace {

// Of a second-level cache of 1 MiB, the rest being for weights on their way. Rows of long depth are then
// still enough to reuse each weight some twenty times.
constexpr std::size_t k_block_bytes = 640U << 10;
constexpr std::int64_t k_block_rows_min = 8;

std::size_t no_scratch(std::int64_t) noexcept {
  return 0;
}

product bf16_product(activation_format activations) noexcept {
  if (activations == activation_format::float32)
    return {float_row_bytes, no_scratch, prepare_float_pairs, bf16_columns};
  if (has_bf16_dot()) return {bf16_row_bytes, no_scratch, prepare_bf16, bf16_dot_columns};
  return {float_row_bytes, no_scratch, prepare_rounded_pairs, bf16_columns};
}

product grouped_product(dtype weights, activation_format activations) noexcept {
  const bool wide = weights == dtype::int8;
  if (activations == activation_format::float32) {
    return {float_row_bytes, no_scratch, prepare_float, wide ? int8_columns : mxfp4_columns};
  }
  if (has_int8_dot()) {
    if (wide) return {int8_row_bytes, panel_bytes, prepare_int8_dot, int8_dot_columns};
    return {mxfp4_row_bytes, panel_bytes, prepare_mxfp4_dot, mxfp4_dot_columns};
  }
  if (wide) return {int8_row_bytes, no_scratch, prepare_int8, quantised_int8_columns};
  return {mxfp4_row_bytes, no_scratch, prepare_mxfp4, quantised_mxfp4_columns};
}

}  // namespace

product product_of(dtype weights, activation_format activations) noexcept {
  switch (weights) {
    case dtype::f32:
      return {float_row_bytes, no_scratch, prepare_float, f32_columns};
    case dtype::f16:
      return {float_row_bytes, no_scratch, prepare_float, f16_columns};
    case dtype::bf16:
      return bf16_product(activations);
    case dtype::mxfp4:
    case dtype::int8:
      return grouped_product(weights, activations);
  }
  return {};
}

std::int64_t block_rows(std::size_t row_bytes, std::int64_t rows) noexcept {
  const auto fit = std::max(static_cast<std::int64_t>(k_block_bytes / row_bytes), k_block_rows_min);
  const std::int64_t blocks = (rows + fit - 1) / fit;
  return (rows + blocks - 1) / blocks;
}

}  // namespace weir::kernels::cpu
