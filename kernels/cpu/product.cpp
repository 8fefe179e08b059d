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

product bf16_product(activation_format activations) noexcept {
  if (activations == activation_format::float32) return {float_row_bytes, prepare_float_pairs, bf16_columns};
  if (has_bf16_dot()) return {bf16_row_bytes, prepare_bf16, bf16_dot_columns};
  return {float_row_bytes, prepare_rounded_pairs, bf16_columns};
}

}  // namespace

product product_of(dtype weights, activation_format activations) noexcept {
  switch (weights) {
    case dtype::f32:
      return {float_row_bytes, prepare_float, f32_columns};
    case dtype::f16:
      return {float_row_bytes, prepare_float, f16_columns};
    case dtype::bf16:
      return bf16_product(activations);
    case dtype::mxfp4:
      return {float_row_bytes, prepare_float, mxfp4_columns};
    case dtype::int8:
      return {float_row_bytes, prepare_float, int8_columns};
  }
  return {};
}

std::int64_t block_rows(std::size_t row_bytes, std::int64_t rows) noexcept {
  const auto fit = std::max(static_cast<std::int64_t>(k_block_bytes / row_bytes), k_block_rows_min);
  const std::int64_t blocks = (rows + fit - 1) / fit;
  return (rows + blocks - 1) / blocks;
}

}  // namespace weir::kernels::cpu
