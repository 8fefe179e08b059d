// The quantization_config object of a checkpoint: one form is run, routed experts packed in MXFP4; any other
// is refused by the key that differs. One thread.
#pragma once

#include "engine/model/json_fields.hpp"
#include "engine/model/model_config.hpp"

namespace weir::engine::model {

// Reads it from `fields` when it is there, and sets packed_experts. After the feed-forward keys, whose widths
// have to be whole groups.
void read_quantization(json_fields& fields, model_config& config);

}  // namespace weir::engine::model
