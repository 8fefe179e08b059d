// Number formats of stored weights and their exact widening to float. Pure functions; any thread.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace weir::kernels {

enum class dtype : std::uint8_t {
  f32,    // IEEE binary32
  bf16,   // the upper half of binary32
  f16,    // IEEE binary16
  mxfp4,  // E2M1 codes, two a byte, low nibble first; one E8M0 scale per k_mxfp4_group of them
  int8,   // two's complement, -127..127; one float32 scale per k_int8_group of them
};

inline constexpr std::int32_t k_mxfp4_group = 32;
inline constexpr std::int32_t k_int8_group = 64;

// Those that have scales beside them: stored by whole groups of a row, for matrix products alone.
constexpr bool grouped(dtype type) {
  return type == dtype::mxfp4 || type == dtype::int8;
}

// Bytes of one element. REQUIRES: not grouped.
constexpr std::size_t size_bytes(dtype type) {
  return type == dtype::f32 ? 4 : 2;
}

// Bytes of `count` elements without and with their scales. REQUIRES: whole groups of grouped ones.
constexpr std::int64_t code_bytes(dtype type, std::int64_t count) {
  if (type == dtype::mxfp4) return count / 2;
  return type == dtype::int8 ? count : count * static_cast<std::int64_t>(size_bytes(type));
}
constexpr std::int64_t stored_bytes(dtype type, std::int64_t count) {
  if (type == dtype::mxfp4) return code_bytes(type, count) + count / k_mxfp4_group;
  if (type == dtype::int8) return code_bytes(type, count) + count / k_int8_group * 4;
  return code_bytes(type, count);
}

constexpr float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// Exact for every input, subnormals, infinities and NaNs included.
constexpr float f16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1FU;
  const std::uint32_t mantissa = bits & 0x3FFU;
  if (exponent == 0) {
    const float value = static_cast<float>(mantissa) * 0x1p-24F;
    return sign != 0 ? -value : value;
  }
  const std::uint32_t wide = exponent == 31 ? 255U : exponent + 112U;
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

// Round to nearest even; the tests' checkpoints are written with it.
constexpr std::uint16_t float_to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

// Twice the value of each E2M1 code (sign, two exponent bits, one mantissa bit): all of them integers.
inline constexpr std::int8_t k_e2m1_doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// 2^(byte - 127). The format's NaN, 255, is read as zero: a group that holds nothing.
constexpr float e8m0_to_float(std::uint8_t byte) {
  if (byte == 255) return 0.0F;
  const std::uint32_t bits = byte == 0 ? 0x00400000U : static_cast<std::uint32_t>(byte) << 23;
  return std::bit_cast<float>(bits);
}

// Element `index` of packed codes with the scales of their groups.
inline float load_mxfp4(const void* data, const std::uint8_t* scales, std::size_t index) {
  const std::uint8_t pair = static_cast<const std::uint8_t*>(data)[index / 2];
  const unsigned code = index % 2 == 0 ? pair & 15U : pair >> 4U;
  const float half = 0.5F * e8m0_to_float(scales[index / k_mxfp4_group]);
  return static_cast<float>(k_e2m1_doubled[code]) * half;
}

inline float load_int8(const void* data, const float* scales, std::size_t index) {
  return static_cast<float>(static_cast<const std::int8_t*>(data)[index]) * scales[index / k_int8_group];
}

// Element `index` of a weight buffer aligned to its element size. REQUIRES: not grouped.
inline float load_weight(const void* data, dtype type, std::size_t index) {
  if (type == dtype::f32) return static_cast<const float*>(data)[index];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(data)[index];
  return type == dtype::bf16 ? bf16_to_float(bits) : f16_to_float(bits);
}

}  // namespace weir::kernels
