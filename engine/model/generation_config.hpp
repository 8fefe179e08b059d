// generation_config.json of a checkpoint: the sampling values its publisher recommends where a request names
// none. Values; any thread.
#pragma once

#include <cstdint>
#include <filesystem>

#include "engine/result.hpp"

namespace weir::engine::model {

struct generation_config {
  float temperature = 1.0F;
  float top_p = 1.0F;
  std::int32_t top_k = 0;  // 0 = off
};

// A missing file gives the defaults; a malformed one is errc::bad_model.
result<generation_config> load_generation_config(const std::filesystem::path& model_dir);

}  // namespace weir::engine::model
