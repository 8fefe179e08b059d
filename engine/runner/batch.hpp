// One step's work, flattened: rows of all sequences behind one another, each sequence's rows being
// consecutive tokens. Plain data, rebuilt every step; one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/params.hpp"

namespace weir::engine::runner {

struct batch {
  std::vector<std::int32_t> tokens;                // [T]
  std::vector<kernels::sequence_range> sequences;  // [B]
  std::vector<std::int32_t> row_sequence;          // [T]
  std::vector<std::int32_t> block_table;           // [B, table_stride]
  std::int32_t table_stride = 0;
  std::vector<std::int32_t> logit_rows;  // [L] ascending: the rows whose logits are wanted

  std::int32_t row_count() const noexcept { return static_cast<std::int32_t>(tokens.size()); }

  // `stride` is the most pages that any sequence of this batch holds.
  void reset(std::int32_t stride);

  // Appends a sequence's next tokens. `pages` cover positions [0, position + tokens).
  void append(std::span<const std::int32_t> next, std::int32_t position, std::int32_t slot,
              std::span<const std::int32_t> pages);

  kernels::batch_view view() const noexcept;
};

}  // namespace weir::engine::runner
