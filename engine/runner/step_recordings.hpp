// Decode steps of one shape are the same work on the same memory, only with other numbers in the batch: what
// a device can record is recorded once per shape and replayed. A shape is done directly the first time, so
// that memory has grown and libraries are warm, recorded the second. One thread.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "engine/runner/device.hpp"

namespace weir::engine::runner {

inline constexpr std::size_t k_recordings_max = 256;

// Everything that launches depend on beside the contents of memory.
struct step_shape {
  std::int32_t rows = 0;
  std::int32_t logit_rows = 0;
  std::int32_t table_stride = 0;
  std::int32_t context_max = 0;

  friend auto operator<=>(const step_shape&, const step_shape&) = default;
};

class step_recordings final {
 public:
  // REQUIRES: the device can record.
  explicit step_recordings(device& where) noexcept : device_(where) {}

  // Does `work`, or what it did before. `memory` differs once anything that the work touches has moved: then
  // every recording is void.
  void run(const step_shape& shape, std::uint64_t memory, const std::function<void()>& work);

  std::size_t size() const noexcept { return known_.size(); }
  std::uint64_t replayed() const noexcept { return replayed_; }

 private:
  device& device_;
  std::uint64_t memory_ = 0;
  std::uint64_t replayed_ = 0;
  std::map<step_shape, std::unique_ptr<recording>> known_;  // null: done once, directly
};

}  // namespace weir::engine::runner
