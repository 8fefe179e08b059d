// The frame of a batch's number as both ends of an event stream write it: eight bytes, big-endian. Pure; any
// thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <zmq.hpp>

namespace weir::gateway::kv_events {

inline constexpr std::size_t k_sequence_bytes = 8;
inline constexpr std::uint64_t k_end_of_replay = ~std::uint64_t{0};  // in the place of a number

inline std::array<unsigned char, k_sequence_bytes> to_big_endian(std::uint64_t value) {
  std::array<unsigned char, k_sequence_bytes> bytes{};
  for (auto at = bytes.rbegin(); at != bytes.rend(); ++at, value >>= 8)
    *at = static_cast<unsigned char>(value);
  return bytes;
}

// REQUIRES: k_sequence_bytes bytes.
inline std::uint64_t from_big_endian(const zmq::message_t& bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < k_sequence_bytes; ++i)
    value = (value << 8) | static_cast<const unsigned char*>(bytes.data())[i];
  return value;
}

}  // namespace weir::gateway::kv_events
