// The parts that product_of() puts together; their files are named after them. Any thread.
#pragma once

#include "kernels/cpu/product.hpp"
#include "kernels/cpu/tiles.hpp"

namespace weir::kernels::cpu {

// product_float: rows of floats, in the order of the weights or by even and odd ones.
inline constexpr std::int64_t k_row_pad = 32;  // floats: two of the longest vectors
std::size_t float_row_bytes(std::int64_t depth);
void prepare_float(const float* x, std::int64_t depth, std::byte* row);
void prepare_float_pairs(const float* x, std::int64_t depth, std::byte* row);
void prepare_rounded_pairs(const float* x, std::int64_t depth, std::byte* row);
void f32_columns(const product_range& p, std::int64_t begin, std::int64_t end);
void f16_columns(const product_range& p, std::int64_t begin, std::int64_t end);
void bf16_columns(const product_range& p, std::int64_t begin, std::int64_t end);

// product_grouped: rows of floats beside int8 and MXFP4 weights.
void int8_columns(const product_range& p, std::int64_t begin, std::int64_t end);
void mxfp4_columns(const product_range& p, std::int64_t begin, std::int64_t end);

// avx512_bf16: rows of bf16. REQUIRES: has_bf16_dot().
std::size_t bf16_row_bytes(std::int64_t depth);
void prepare_bf16(const float* x, std::int64_t depth, std::byte* row);
void bf16_dot_columns(const product_range& p, std::int64_t begin, std::int64_t end);

}  // namespace weir::kernels::cpu
