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

// quantised: rows of 8 bits beside int8 and MXFP4 weights, for every processor.
std::size_t int8_row_bytes(std::int64_t depth);
std::size_t mxfp4_row_bytes(std::int64_t depth);
void prepare_int8(const float* x, std::int64_t depth, std::byte* row);
void prepare_mxfp4(const float* x, std::int64_t depth, std::byte* row);
void quantised_int8_columns(const product_range& p, std::int64_t begin, std::int64_t end);
void quantised_mxfp4_columns(const product_range& p, std::int64_t begin, std::int64_t end);

// avx512_int8: the same rows, prepared and multiplied with dot products of bytes. REQUIRES: has_int8_dot().
void prepare_int8_dot(const float* x, std::int64_t depth, std::byte* row);
void prepare_mxfp4_dot(const float* x, std::int64_t depth, std::byte* row);
std::size_t panel_bytes(std::int64_t depth);
void int8_dot_columns(const product_range& p, std::int64_t begin, std::int64_t end);
void mxfp4_dot_columns(const product_range& p, std::int64_t begin, std::int64_t end);

}  // namespace weir::kernels::cpu
