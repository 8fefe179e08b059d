#include "engine/text/rank_table.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <functional>
#include <limits>

#include "engine/text/hash_bytes.hpp"

namespace weir::engine::text {
namespace {

// Pieces up to this length are merged by scanning an array for the lowest rank, which beats a heap there.
constexpr std::size_t k_short_piece_bytes = 64;

}  // namespace

result<rank_table> rank_table::build(std::span<const std::string> tokens) {
  if (tokens.size() > static_cast<std::size_t>(k_ranks_max)) {
    return fail(errc::bad_model, "more than " + std::to_string(k_ranks_max) + " ranks");
  }
  rank_table out;
  out.offsets_.push_back(0);
  for (const auto& token : tokens) {
    if (token.empty() || token.size() > k_token_bytes_max) {
      return fail(errc::bad_model, "rank " + std::to_string(out.size()) + " has " +
                                       std::to_string(token.size()) + " bytes; allowed are 1 to " +
                                       std::to_string(k_token_bytes_max));
    }
    out.blob_ += token;
    out.offsets_.push_back(static_cast<std::uint32_t>(out.blob_.size()));
    out.token_bytes_max_ = std::max(out.token_bytes_max_, token.size());
  }
  out.slots_.assign(std::bit_ceil(tokens.size() * 2 + 2), slot{0, -1});
  for (std::int32_t rank = 0; rank < out.size(); ++rank) {
    if (!out.insert(rank))
      return fail(errc::bad_model, "rank " + std::to_string(rank) + " repeats an earlier token");
  }
  for (int b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    out.single_[b] = out.find({&byte, 1});
    if (out.single_[b] < 0) return fail(errc::bad_model, "no token for the single byte " + std::to_string(b));
  }
  out.pairs_.assign(65536, k_none);
  for (int i = 0; i < 65536; ++i) {
    const char pair[2] = {static_cast<char>(i >> 8), static_cast<char>(i & 0xFF)};
    if (const std::int32_t rank = out.find({pair, 2}); rank >= 0) out.pairs_[i] = rank;
  }
  return out;
}

bool rank_table::insert(std::int32_t rank) {
  const std::uint64_t h = hash_bytes(bytes(rank));
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = h & mask;; i = (i + 1) & mask) {
    if (slots_[i].rank < 0) {
      slots_[i] = {static_cast<std::uint32_t>(h >> 32), rank};
      return true;
    }
    if (slots_[i].hash == static_cast<std::uint32_t>(h >> 32) && bytes(slots_[i].rank) == bytes(rank))
      return false;
  }
}

std::int32_t rank_table::find(std::string_view key) const noexcept {
  if (key.size() > token_bytes_max_) return -1;
  const std::uint64_t h = hash_bytes(key);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = h & mask;; i = (i + 1) & mask) {
    const slot& s = slots_[i];
    if (s.rank < 0) return -1;
    if (s.hash == static_cast<std::uint32_t>(h >> 32) && bytes(s.rank) == key) return s.rank;
  }
}

void rank_table::encode_piece(std::string_view piece, std::vector<std::int32_t>& out) const {
  assert(!piece.empty() && piece.size() < k_piece_bytes_max);
  if (piece.size() == 1) return out.push_back(single_[static_cast<std::uint8_t>(piece[0])]);
  if (const std::int32_t rank = find(piece); rank >= 0) return out.push_back(rank);
  if (piece.size() == 2) {
    for (const char c : piece) out.push_back(single_[static_cast<std::uint8_t>(c)]);
    return;
  }
  piece.size() <= k_short_piece_bytes ? merge_short(piece, out) : merge_long(piece, out);
}

void rank_table::merge_short(std::string_view piece, std::vector<std::int32_t>& out) const {
  struct part {
    std::int32_t pair_rank;  // of this part joined with the next, k_none for the last and for no token
    std::int32_t rank;
    std::uint8_t begin;
  };
  part parts[k_short_piece_bytes + 1];
  std::size_t count = piece.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t pair = i + 1 < count ? two_bytes(piece[i], piece[i + 1]) : k_none;
    parts[i] = {pair, single_[static_cast<std::uint8_t>(piece[i])], static_cast<std::uint8_t>(i)};
  }
  parts[count] = {k_none, -1, static_cast<std::uint8_t>(piece.size())};
  const auto pair_rank = [&](std::size_t i) {
    if (i + 2 > count) return k_none;
    const std::int32_t rank = find(piece.substr(parts[i].begin, parts[i + 2].begin - parts[i].begin));
    return rank < 0 ? k_none : rank;
  };
  for (;;) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < count; ++i) {
      if (parts[i].pair_rank < parts[best].pair_rank) best = i;
    }
    if (parts[best].pair_rank == k_none) break;
    parts[best].rank = parts[best].pair_rank;
    std::copy(parts + best + 2, parts + count + 1, parts + best + 1);
    --count;
    parts[best].pair_rank = best + 1 < count ? pair_rank(best) : k_none;
    if (best > 0) parts[best - 1].pair_rank = pair_rank(best - 1);
  }
  for (std::size_t i = 0; i < count; ++i) out.push_back(parts[i].rank);
}

// A heap of candidate pairs over a linked list of parts; an entry whose part has changed since is skipped. A
// rank stands for one byte string, so a part's new pair never has the rank of an old entry for the same
// place.
void rank_table::merge_long(std::string_view piece, std::vector<std::int32_t>& out) const {
  struct part {
    std::uint32_t previous,
        next;           // indexes of parts = offset of their first byte; next of the last is the size
    std::int32_t rank;  // -1: merged away
    std::int32_t pair_rank;
  };
  const auto size = static_cast<std::uint32_t>(piece.size());
  std::vector<part> parts(size);
  std::vector<std::uint64_t> heap;  // pair rank << 32 | part: lowest rank, then leftmost
  const auto entry = [](std::int32_t rank, std::uint32_t at) {
    return static_cast<std::uint64_t>(rank) << 32 | at;
  };
  const auto set_pair = [&](std::uint32_t at) {
    const std::uint32_t next = parts[at].next;
    std::int32_t rank = -1;
    if (next < size) rank = find(piece.substr(at, parts[next].next - at));
    parts[at].pair_rank = rank < 0 ? k_none : rank;
    return rank >= 0;
  };
  for (std::uint32_t i = 0; i < size; ++i) {
    parts[i] = {i == 0 ? size : i - 1, i + 1, single_[static_cast<std::uint8_t>(piece[i])], k_none};
  }
  for (std::uint32_t i = 0; i + 1 < size; ++i) {
    const std::int32_t rank = two_bytes(piece[i], piece[i + 1]);
    if (rank == k_none) continue;
    parts[i].pair_rank = rank;
    heap.push_back(entry(rank, i));
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  const auto push = [&](std::uint32_t at) {
    if (!set_pair(at)) return;
    heap.push_back(entry(parts[at].pair_rank, at));
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const std::uint64_t top = heap.back();
    heap.pop_back();
    const auto at = static_cast<std::uint32_t>(top);
    if (parts[at].rank < 0 || entry(parts[at].pair_rank, at) != top) continue;
    const std::uint32_t gone = parts[at].next;
    parts[at].rank = parts[at].pair_rank;
    parts[at].next = parts[gone].next;
    parts[gone].rank = -1;
    if (parts[at].next < size) parts[parts[at].next].previous = at;
    push(at);
    if (parts[at].previous < size) push(parts[at].previous);
  }
  for (std::uint32_t i = 0; i < size; i = parts[i].next) out.push_back(parts[i].rank);
}

}  // namespace weir::engine::text
