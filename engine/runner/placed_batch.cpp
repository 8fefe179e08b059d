#include "engine/runner/placed_batch.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

namespace weir::engine::runner {

namespace {

// Of what is rounded up to powers of two; smaller ones are not told apart.
constexpr std::uint32_t k_stride_least = 16;
constexpr std::uint32_t k_context_least = 256;
constexpr std::uint32_t k_context_most = 1U << 30;

std::int32_t round_up(std::int32_t value, std::uint32_t least) {
  const auto wanted = std::clamp(static_cast<std::uint32_t>(value), least, k_context_most);
  return static_cast<std::int32_t>(std::bit_ceil(wanted));
}

}  // namespace

void placed_batch::place(const batch& work) {
  logit_count_ = static_cast<std::int32_t>(work.logit_rows.size());
  view_ = work.view();
  tokens_ = work.tokens.data();
  logit_rows_ = work.logit_rows.data();
  if (device_.is_host()) return;
  staged_.clear();
  const auto append = [this](const auto& values) {
    const std::size_t at = staged_.size();
    const auto bytes = std::as_bytes(std::span(values));
    staged_.insert(staged_.end(), bytes.begin(), bytes.end());
    return at;
  };
  const std::size_t sequences = append(work.sequences);
  const std::size_t rows = append(work.row_sequence);
  const std::size_t tokens = append(work.tokens);
  const std::size_t logit_rows = append(work.logit_rows);
  const std::int32_t stride = round_up(work.table_stride, k_stride_least);
  const auto row_bytes = static_cast<std::size_t>(work.table_stride) * sizeof(std::int32_t);
  const auto wide_bytes = static_cast<std::size_t>(stride) * sizeof(std::int32_t);
  const std::size_t table = staged_.size();
  staged_.resize(table + work.sequences.size() * wide_bytes);
  for (std::size_t s = 0; s < work.sequences.size() && row_bytes > 0; ++s) {
    std::memcpy(staged_.data() + table + s * wide_bytes,
                work.block_table.data() + s * static_cast<std::size_t>(work.table_stride), row_bytes);
  }
  std::byte* const to = memory_.need(static_cast<std::int64_t>(staged_.size()));
  device_.upload(to, staged_.data(), staged_.size());
  const auto numbers = [to](std::size_t at) { return reinterpret_cast<const std::int32_t*>(to + at); };
  tokens_ = numbers(tokens);
  logit_rows_ = numbers(logit_rows);
  view_.sequences = reinterpret_cast<const kernels::sequence_range*>(to + sequences);
  view_.row_sequence = numbers(rows);
  view_.block_table = numbers(table);
  view_.table_stride = stride;
  view_.context_max = round_up(view_.context_max, k_context_least);
}

}  // namespace weir::engine::runner
