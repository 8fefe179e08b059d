#include "engine/text/bpe_model.hpp"

#include <cassert>
#include <utility>

#include "engine/text/bpe_merge.hpp"

namespace weir::engine::text {

struct bpe_model::by_rank {
  const bpe_model& m;

  std::int32_t single(std::uint8_t byte) const { return m.single_[byte]; }
  merge_candidate bytes(std::string_view two) const {
    const std::int32_t rank =
        m.pairs_[static_cast<std::uint8_t>(two[0]) << 8 | static_cast<std::uint8_t>(two[1])];
    return {rank, rank};
  }
  merge_candidate parts(std::int32_t, std::int32_t, std::string_view both) const {
    const std::int32_t rank = m.tokens_.find_rare(both);
    return rank < 0 ? merge_candidate{} : merge_candidate{rank, rank};
  }
};

struct bpe_model::by_rule {
  const bpe_model& m;

  std::int32_t single(std::uint8_t byte) const { return m.single_[byte]; }
  merge_candidate bytes(std::string_view two) const {
    return parts(single(static_cast<std::uint8_t>(two[0])), single(static_cast<std::uint8_t>(two[1])), two);
  }
  merge_candidate parts(std::int32_t left, std::int32_t right, std::string_view) const {
    const auto found = m.merges_.find(left, right);
    return found.order < 0 ? merge_candidate{} : merge_candidate{found.order, found.joined};
  }
};

template <class Pairs>
void bpe_model::merge(const Pairs& pairs, std::string_view piece, std::vector<std::int32_t>& out) const {
  piece.size() <= k_short_piece_bytes ? merge_short(pairs, piece, out) : merge_long(pairs, piece, out);
}

result<bpe_model> bpe_model::with_bytes(std::span<const std::string> tokens, bool holes) {
  auto table = token_table::build(tokens, holes);
  if (!table) return std::unexpected(table.error());
  bpe_model out(std::move(*table));
  for (int b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    out.single_[b] = out.tokens_.find(std::string_view(&byte, 1));
    if (out.single_[b] < 0) return fail(errc::bad_model, "no token for the single byte " + std::to_string(b));
  }
  return out;
}

result<bpe_model> bpe_model::of_ranks(std::span<const std::string> tokens) {
  auto out = with_bytes(tokens, false);
  if (!out) return out;
  out->pairs_.assign(65536, k_never);
  for (int i = 0; i < 65536; ++i) {
    const char pair[2] = {static_cast<char>(i >> 8), static_cast<char>(i & 0xFF)};
    if (const std::int32_t rank = out->tokens_.find(std::string_view(pair, 2)); rank >= 0)
      out->pairs_[i] = rank;
  }
  return out;
}

result<bpe_model> bpe_model::of_merges(std::span<const std::string> tokens, std::span<const merge_rule> rules,
                                       bool ignore_merges) {
  auto out = with_bytes(tokens, true);
  if (!out) return out;
  out->ranks_ = false;
  out->merges_ = merge_table::build(rules);
  out->whole_.assign(tokens.size(), ignore_merges);
  if (ignore_merges) return out;
  std::vector<std::int32_t> ids;
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (tokens[id].size() < 2) continue;
    ids.clear();
    out->merge(by_rule{*out}, tokens[id], ids);
    out->whole_[id] = ids.size() == 1 && ids[0] == static_cast<std::int32_t>(id);
  }
  return out;
}

void bpe_model::encode_piece(const token_table::prepared& piece, std::vector<std::int32_t>& out) const {
  assert(!piece.bytes.empty() && piece.bytes.size() < k_piece_bytes_max);
  if (piece.bytes.size() == 1) return out.push_back(single_[static_cast<std::uint8_t>(piece.bytes[0])]);
  const std::int32_t id = tokens_.find(piece);
  if (id >= 0 && (ranks_ || whole_[id])) return out.push_back(id);
  ranks_ ? merge(by_rank{*this}, piece.bytes, out) : merge(by_rule{*this}, piece.bytes, out);
}

}  // namespace weir::engine::text
