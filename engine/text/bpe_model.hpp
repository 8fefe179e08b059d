// A byte-level BPE vocabulary and how it merges: pieces of text to ids.
//
// Invariants: every token's bytes are unique, and each of the 256 single bytes is a token. Immutable once
// made; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/result.hpp"
#include "engine/text/merge_table.hpp"
#include "engine/text/token_table.hpp"

namespace weir::engine::text {

class bpe_model final {
 public:
  // As tiktoken does: ids are ranks, any two neighbours whose bytes joined are a token may merge, the lowest
  // rank first, and a piece that is a token needs no merges. `tokens[rank]` are the bytes of each rank.
  // errc::bad_model names the first token that breaks an invariant.
  static result<bpe_model> of_ranks(std::span<const std::string> tokens);

  // As Hugging Face's BPE does: only listed pairs merge, in the order of the list. An empty token is an id
  // that text never yields. With `ignore_merges` a piece that is a token needs no merges.
  // REQUIRES: the rules' ids are those of tokens.
  static result<bpe_model> of_merges(std::span<const std::string> tokens, std::span<const merge_rule> rules,
                                     bool ignore_merges);

  std::int32_t size() const noexcept { return tokens_.size(); }

  // REQUIRES: 0 <= id < size().
  std::string_view bytes(std::int32_t id) const noexcept { return tokens_.bytes(id); }

  // Starts the lookup of a piece that encode_piece will need soon.
  token_table::prepared prepare(std::string_view piece) const noexcept { return tokens_.prepare(piece); }

  // Appends the ids of one piece. O(n log n) in its bytes. REQUIRES: 0 < bytes < k_piece_bytes_max.
  void encode_piece(const token_table::prepared& piece, std::vector<std::int32_t>& out) const;
  void encode_piece(std::string_view piece, std::vector<std::int32_t>& out) const {
    encode_piece(prepare(piece), out);
  }

 private:
  struct by_rank;
  struct by_rule;

  explicit bpe_model(token_table tokens) : tokens_(std::move(tokens)) {}
  static result<bpe_model> with_bytes(std::span<const std::string> tokens, bool holes);
  template <class Pairs>
  void merge(const Pairs& pairs, std::string_view piece, std::vector<std::int32_t>& out) const;

  token_table tokens_;
  std::array<std::int32_t, 256> single_{};  // byte -> id
  std::vector<std::int32_t> pairs_;         // of ranks: [65536] first byte * 256 + second -> rank or k_never
  bool ranks_ = true;
  merge_table merges_;       // not of ranks
  std::vector<bool> whole_;  // not of ranks: [tokens] a piece of exactly this token's bytes becomes it
};

}  // namespace weir::engine::text
