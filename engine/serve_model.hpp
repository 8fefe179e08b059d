// An engine over weights that are in memory already, from wherever: what engine::open() does once it has
// loaded a checkpoint. `model_dir` and `weights` of the configuration are not read. Any thread.
#pragma once

#include <memory>

#include "engine/engine.hpp"
#include "engine/result.hpp"
#include "engine/runner/model_runner.hpp"

namespace weir::engine {

result<std::unique_ptr<engine>> serve_model(const engine_config& config,
                                            std::shared_ptr<const runner::loaded_model> loaded);

}  // namespace weir::engine
