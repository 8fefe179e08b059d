// A batch's arrays where the kernels run: the batch's own on the host, elsewhere one block of memory, filled
// by one upload. Off the host the sizes that launches depend on are rounded up, so that decode steps of many
// contexts have few shapes. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/runner/batch.hpp"
#include "engine/runner/device.hpp"
#include "engine/runner/step_recordings.hpp"

namespace weir::engine::runner {

class placed_batch final {
 public:
  explicit placed_batch(device& where) noexcept : device_(where), memory_(where) {}

  // `work` outlives what is done with the views.
  void place(const batch& work);

  const kernels::batch_view& view() const noexcept { return view_; }
  const std::int32_t* tokens() const noexcept { return tokens_; }
  const std::int32_t* logit_rows() const noexcept { return logit_rows_; }
  std::int32_t rows() const noexcept { return view_.row_count; }
  std::int32_t logit_count() const noexcept { return logit_count_; }

  // One token of each sequence.
  bool is_decode() const noexcept { return view_.count_max == 1; }
  step_shape shape() const noexcept {
    return {view_.row_count, logit_count_, view_.table_stride, view_.context_max};
  }

 private:
  device& device_;
  scratch<std::byte> memory_;
  std::vector<std::byte> staged_;
  kernels::batch_view view_;
  const std::int32_t* tokens_ = nullptr;
  const std::int32_t* logit_rows_ = nullptr;
  std::int32_t logit_count_ = 0;
};

}  // namespace weir::engine::runner
