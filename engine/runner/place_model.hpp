// A loaded model's weights copied to a device: one block of memory, matrices and vectors in it in the formats
// that they have. Blocks; one thread, the device's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "engine/runner/device.hpp"
#include "engine/runner/model_runner.hpp"

namespace weir::engine::runner {

// What place_model() will allocate.
std::int64_t placed_bytes(const model::model_weights& weights);

// The copy keeps `where` alive; the original may go. Matrices that are on the device already stay there.
// `told`: bytes copied so far, of how many; may be empty. Throws std::bad_alloc where the device has no room,
// std::runtime_error for its faults.
std::shared_ptr<const loaded_model> place_model(
    const loaded_model& model, std::shared_ptr<device> where,
    const std::function<void(std::int64_t done, std::int64_t all)>& told = {});

}  // namespace weir::engine::runner
