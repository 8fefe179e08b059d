#include "engine/runner/batch.hpp"

#include <algorithm>
#include <cassert>

namespace weir::engine::runner {

void batch::reset(std::int32_t stride) {
  tokens.clear();
  sequences.clear();
  row_sequence.clear();
  block_table.clear();
  logit_rows.clear();
  table_stride = stride;
}

void batch::append(std::span<const std::int32_t> next, std::int32_t position, std::int32_t slot,
                   std::span<const std::int32_t> pages) {
  assert(!next.empty() && pages.size() <= static_cast<std::size_t>(table_stride));
  const auto index = static_cast<std::int32_t>(sequences.size());
  sequences.push_back({row_count(), static_cast<std::int32_t>(next.size()), position, slot});
  tokens.insert(tokens.end(), next.begin(), next.end());
  row_sequence.insert(row_sequence.end(), next.size(), index);
  block_table.insert(block_table.end(), pages.begin(), pages.end());
  block_table.resize(sequences.size() * static_cast<std::size_t>(table_stride), 0);
}

kernels::batch_view batch::view() const noexcept {
  kernels::batch_view out{sequences.data(),   row_sequence.data(),
                          block_table.data(), static_cast<std::int32_t>(sequences.size()),
                          table_stride,       row_count()};
  for (const kernels::sequence_range& seq : sequences) {
    out.context_max = std::max(out.context_max, seq.position + seq.count);
    out.count_max = std::max(out.count_max, seq.count);
  }
  return out;
}

}  // namespace weir::engine::runner
