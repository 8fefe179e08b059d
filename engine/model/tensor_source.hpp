// Where the tensors of a model come from: the files of a checkpoint, or something that makes what it is asked
// for (engine/synth). Views stay valid as long as the source lives. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/model/safetensors.hpp"

namespace weir::engine::model {

enum class storage : std::uint8_t {
  matrix,  // BF16, F16 or F32
  vector,  // the same: norms, biases, convolution taps
  codes,   // U8: MXFP4, two values a byte
  scales,  // U8: exponents of MXFP4 groups
};

class tensor_source {
 public:
  virtual ~tensor_source() = default;

  // What is there already under this name.
  virtual std::optional<tensor_view> find(std::string_view name) const = 0;

  // The tensor that stands for `name`. `shape` and `how` are what the configuration asks for; what comes may
  // differ, and is the caller's to check.
  virtual std::optional<tensor_view> take(std::string_view name, const std::vector<std::int64_t>& shape,
                                          storage how) = 0;
};

}  // namespace weir::engine::model
