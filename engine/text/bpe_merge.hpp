// Byte-pair merging of one piece of text: of all adjacent pairs that may merge, the one of the lowest order,
// of equal ones the leftmost, until none is left. O(n log n) in the piece's bytes. Pure; any thread.
//
// `Pairs` says what two adjacent parts become:
//   std::int32_t single(std::uint8_t byte)                            the token of one byte
//   merge_candidate bytes(std::string_view two)                       of two single bytes
//   merge_candidate parts(left id, right id, std::string_view both)   of two tokens whose bytes are `both`
// The order of a pair must determine its joined bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <string_view>
#include <vector>

namespace weir::engine::text {

inline constexpr std::size_t k_piece_bytes_max = 1ULL << 31;  // offsets within a piece are 32 bits

// Pieces up to this length are merged by scanning an array for the lowest order, which beats a heap there.
inline constexpr std::size_t k_short_piece_bytes = 64;

inline constexpr std::int32_t k_never = std::numeric_limits<std::int32_t>::max();

struct merge_candidate {
  std::int32_t order = k_never;  // k_never: does not merge
  std::int32_t joined = -1;
};

// REQUIRES: 2 <= piece.size() <= k_short_piece_bytes.
template <class Pairs>
void merge_short(const Pairs& pairs, std::string_view piece, std::vector<std::int32_t>& out) {
  struct part {
    merge_candidate next;  // this part joined with the next
    std::int32_t id;
    std::uint32_t begin;
  };
  part parts[k_short_piece_bytes + 1];
  std::size_t count = piece.size();
  for (std::size_t i = 0; i < count; ++i) {
    parts[i].next = i + 1 < count ? pairs.bytes(piece.substr(i, 2)) : merge_candidate{};
    parts[i].id = pairs.single(static_cast<std::uint8_t>(piece[i]));
    parts[i].begin = static_cast<std::uint32_t>(i);
  }
  parts[count].begin = static_cast<std::uint32_t>(count);
  const auto look = [&](std::size_t i) {
    parts[i].next = i + 1 < count
                        ? pairs.parts(parts[i].id, parts[i + 1].id,
                                      piece.substr(parts[i].begin, parts[i + 2].begin - parts[i].begin))
                        : merge_candidate{};
  };
  for (;;) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < count; ++i) {
      if (parts[i].next.order < parts[best].next.order) best = i;
    }
    if (parts[best].next.order == k_never) break;
    parts[best].id = parts[best].next.joined;
    for (std::size_t i = best + 1; i < count; ++i) parts[i] = parts[i + 1];
    --count;
    look(best);
    if (best > 0) look(best - 1);
  }
  for (std::size_t i = 0; i < count; ++i) out.push_back(parts[i].id);
}

// A heap of candidate pairs over a linked list of parts; an entry whose part has changed since is skipped. An
// order stands for one byte string, so a part's new pair never has the order of an old entry for the same
// place. REQUIRES: 2 <= piece.size() < k_piece_bytes_max.
template <class Pairs>
void merge_long(const Pairs& pairs, std::string_view piece, std::vector<std::int32_t>& out) {
  struct part {
    std::uint32_t previous;  // indexes of parts are offsets of their first byte; size: none
    std::uint32_t next;
    std::int32_t id;  // -1: merged away
    merge_candidate candidate;
  };
  const auto size = static_cast<std::uint32_t>(piece.size());
  std::vector<part> parts(size);
  std::vector<std::uint64_t> heap;  // order << 32 | part: lowest order, then leftmost
  const auto entry = [](std::int32_t order, std::uint32_t at) {
    return static_cast<std::uint64_t>(order) << 32 | at;
  };
  for (std::uint32_t i = 0; i < size; ++i) {
    parts[i] = {i == 0 ? size : i - 1, i + 1, pairs.single(static_cast<std::uint8_t>(piece[i])), {}};
    if (i + 1 < size) parts[i].candidate = pairs.bytes(piece.substr(i, 2));
    if (parts[i].candidate.order != k_never) heap.push_back(entry(parts[i].candidate.order, i));
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  const auto look = [&](std::uint32_t at) {
    part& p = parts[at];
    p.candidate = {};
    if (p.next == size) return;
    const part& right = parts[p.next];
    p.candidate = pairs.parts(p.id, right.id, piece.substr(at, right.next - at));
    if (p.candidate.order == k_never) return;
    heap.push_back(entry(p.candidate.order, at));
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const std::uint64_t top = heap.back();
    heap.pop_back();
    const auto at = static_cast<std::uint32_t>(top);
    part& p = parts[at];
    if (p.id < 0 || entry(p.candidate.order, at) != top) continue;
    p.id = p.candidate.joined;
    part& gone = parts[p.next];
    gone.id = -1;
    p.next = gone.next;
    if (p.next < size) parts[p.next].previous = at;
    look(at);
    if (p.previous < size) look(p.previous);
  }
  for (std::uint32_t i = 0; i < size; i = parts[i].next) out.push_back(parts[i].id);
}

}  // namespace weir::engine::text
