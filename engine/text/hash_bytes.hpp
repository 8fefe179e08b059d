// A fast hash of byte strings, for tables whose keys are an operator's file. Not keyed: lookups cannot add
// keys, so nobody who sends text can crowd a slot. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace weir::engine::text {

template <class T>
T load_bytes(const char* p, std::size_t n = sizeof(T)) {
  T v = 0;
  if (n != 0) std::memcpy(&v, p, n);
  return v;
}

inline std::uint64_t mix_bits(std::uint64_t a, std::uint64_t b) {
  __extension__ using wide = unsigned __int128;
  const wide product = static_cast<wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

inline std::uint64_t hash_bytes(std::string_view bytes, std::uint64_t seed = 0) {
  constexpr std::uint64_t k_a = 0x9E3779B97F4A7C15ULL, k_b = 0xD6E8FEB86659FD93ULL;
  std::uint64_t h = mix_bits(bytes.size() ^ k_a ^ seed, k_b);
  const char* p = bytes.data();
  std::size_t n = bytes.size();
  for (; n > 8; p += 8, n -= 8) h = mix_bits(h ^ load_bytes<std::uint64_t>(p), k_b);
  return mix_bits(h ^ load_bytes<std::uint64_t>(p, n), k_a);
}

}  // namespace weir::engine::text
