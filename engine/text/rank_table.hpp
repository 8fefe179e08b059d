// The byte-level BPE vocabulary: bytes of every rank, and merging within one piece of text, lowest rank
// first.
//
// Invariants: ranks are 0..n-1, every token's bytes are unique and not empty, and each of the 256 single
// bytes is a token. Immutable after build(); any thread.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/result.hpp"

namespace weir::engine::text {

inline constexpr std::int32_t k_ranks_max = 1 << 20;    // Kimi has 163,584
inline constexpr std::size_t k_token_bytes_max = 1024;  // the longest of the published vocabularies has 128
inline constexpr std::size_t k_piece_bytes_max = 1ULL << 31;  // offsets within a piece are 32 bits

class rank_table final {
 public:
  // `tokens[rank]` are the bytes of each rank. errc::bad_model names the first token that breaks an
  // invariant.
  static result<rank_table> build(std::span<const std::string> tokens);

  std::int32_t size() const noexcept { return static_cast<std::int32_t>(offsets_.size()) - 1; }

  // REQUIRES: 0 <= rank < size().
  std::string_view bytes(std::int32_t rank) const noexcept {
    return {blob_.data() + offsets_[rank], offsets_[rank + 1] - offsets_[rank]};
  }

  // The rank of exactly these bytes, or -1.
  std::int32_t find(std::string_view bytes) const noexcept;

  // Appends the ids of one piece. O(n log n) in its bytes. REQUIRES: 0 < piece.size() < k_piece_bytes_max.
  void encode_piece(std::string_view piece, std::vector<std::int32_t>& out) const;

 private:
  struct slot {
    std::uint32_t hash;
    std::int32_t rank;  // -1: empty
  };

  static constexpr std::int32_t k_none = std::numeric_limits<std::int32_t>::max();  // a pair that is no token

  rank_table() = default;
  bool insert(std::int32_t rank);
  std::int32_t two_bytes(char first, char second) const noexcept {
    return pairs_[static_cast<std::uint8_t>(first) << 8 | static_cast<std::uint8_t>(second)];
  }
  void merge_short(std::string_view piece, std::vector<std::int32_t>& out) const;
  void merge_long(std::string_view piece, std::vector<std::int32_t>& out) const;

  std::string blob_;                        // all tokens' bytes
  std::vector<std::uint32_t> offsets_;      // [ranks + 1] into blob_
  std::vector<slot> slots_;                 // open addressing, at most half full
  std::array<std::int32_t, 256> single_{};  // byte -> rank
  std::vector<std::int32_t> pairs_;         // [65536] first byte * 256 + second -> rank or k_none
  std::size_t token_bytes_max_ = 0;
};

}  // namespace weir::engine::text
