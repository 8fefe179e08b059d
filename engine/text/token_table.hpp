// The bytes of every token of a vocabulary, and the token of given bytes.
//
// Lookups are what tokenizing costs, and a vocabulary of 200,000 tokens does not fit a second-level cache. So
// bytes are compared inside the table's slots up to 16 bytes, a lookup of a whole word can be prefetched, and
// a small filter answers most of the lookups that merging makes in vain.
//
// Invariants: tokens are unique. Immutable after build(); any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/result.hpp"
#include "engine/text/hash_bytes.hpp"

namespace weir::engine::text {

inline constexpr std::int32_t k_tokens_max = 1 << 20;   // Kimi has 163,584 ranks
inline constexpr std::size_t k_token_bytes_max = 1024;  // the longest of the published vocabularies has 128

class token_table final {
 public:
  // A lookup in two steps, between which the memory it will touch arrives.
  struct prepared {
    std::string_view bytes;
    std::uint64_t hash;
  };

  // `tokens[id]` are the bytes of each id; empty where `holes` allows an id without a token. errc::bad_model
  // names the first token that breaks an invariant.
  static result<token_table> build(std::span<const std::string> tokens, bool holes);

  std::int32_t size() const noexcept { return static_cast<std::int32_t>(offsets_.size()) - 1; }

  // REQUIRES: 0 <= id < size().
  std::string_view bytes(std::int32_t id) const noexcept {
    return {blob_.data() + offsets_[id], offsets_[id + 1] - offsets_[id]};
  }

  // The id of exactly these bytes, or -1. REQUIRES: bytes is not empty.
  std::int32_t find(std::string_view bytes) const noexcept { return find({bytes, hash(bytes)}); }
  std::int32_t find(const prepared& p) const noexcept;

  // The same where most are not tokens.
  std::int32_t find_rare(std::string_view bytes) const noexcept {
    const std::uint64_t h = hash(bytes);
    return (filter_[(h & filter_mask_) >> 6] >> (h & 63) & 1) != 0 ? find({bytes, h}) : -1;
  }

  // REQUIRES: bytes is not empty.
  prepared prepare(std::string_view bytes) const noexcept {
    const prepared p{bytes, hash(bytes)};
    __builtin_prefetch(bytes.size() < 8 ? static_cast<const void*>(&short_[short_at(p.hash)])
                                        : static_cast<const void*>(&long_[long_at(p.hash)]));
    return p;
  }

 private:
  // Tokens of 1 to 7 bytes: the bytes and their count in one word.
  struct short_slot {
    std::uint64_t key;  // 0: empty
    std::int32_t id;
  };
  // Tokens of 8 bytes or more. First and last 8 bytes and the size are all there is of up to 16 bytes.
  struct long_slot {
    std::uint64_t first;
    std::uint64_t last;
    std::uint32_t size;  // 0: empty
    std::int32_t id;
  };

  static std::uint64_t word(const char* p) noexcept { return load_bytes<std::uint64_t>(p); }
  static std::uint64_t short_key(std::string_view bytes) noexcept {
    const char* p = bytes.data();
    const std::size_t n = bytes.size();
    const std::uint64_t size = static_cast<std::uint64_t>(n) << 56;
    if (n >= 4) {
      const std::uint64_t low = load_bytes<std::uint32_t>(p), high = load_bytes<std::uint32_t>(p + n - 4);
      return size | low | high << (8 * (n - 4));
    }
    const auto at = [p](std::size_t i) {
      return static_cast<std::uint64_t>(static_cast<std::uint8_t>(p[i])) << (8 * i);
    };
    return size | at(0) | at(n / 2) | at(n - 1);
  }
  static std::uint64_t hash(std::string_view bytes) noexcept {
    constexpr std::uint64_t k_a = 0x9E3779B97F4A7C15ULL, k_b = 0xD6E8FEB86659FD93ULL;
    if (bytes.size() < 8) return mix_bits(short_key(bytes) ^ k_a, k_b);
    if (bytes.size() > 16) return hash_bytes(bytes);
    return mix_bits(word(bytes.data()) ^ k_a,
                    (word(bytes.data() + bytes.size() - 8) + bytes.size()) * k_b ^ k_a);
  }
  std::size_t short_at(std::uint64_t h) const noexcept { return h >> 22 & (short_.size() - 1); }
  std::size_t long_at(std::uint64_t h) const noexcept { return h >> 22 & (long_.size() - 1); }

  token_table() = default;
  void insert(std::int32_t id);

  std::string blob_;                    // all tokens' bytes
  std::vector<std::uint32_t> offsets_;  // [tokens + 1] into blob_
  std::vector<short_slot> short_;       // open addressing, sizes are powers of two
  std::vector<long_slot> long_;
  std::vector<std::uint64_t> filter_;  // a bit for each token's hash
  std::uint64_t filter_mask_ = 0;
};

}  // namespace weir::engine::text
