// The embedded engine as an upstream: renders and tokenizes the prompt, checks it against the model, runs the
// choices and writes OpenAI's JSON. Immutable after open(); all I/O threads.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "engine/engine.hpp"
#include "gateway/upstream/loaded_model.hpp"
#include "gateway/upstream/upstream.hpp"

namespace weir::gateway::upstream {

struct engine_upstream_config {
  std::string name;
  engine::engine_config engine;
};

class engine_upstream : public upstream {
 public:
  // Loads tokenizer, chat format, generation defaults and weights. Blocks.
  static engine::result<std::shared_ptr<engine_upstream>> open(const engine_upstream_config& config);

  virtual engine::engine_stats stats() const noexcept = 0;
  virtual engine::monitor::engine_activity activity() const = 0;
  virtual const engine::model_info& model() const noexcept = 0;
  virtual const text_tools& tools() const noexcept = 0;

  // Why it answers nothing any more; empty: it does.
  virtual std::string fault() const = 0;

  // Refuses new requests and cancels running ones.
  virtual void stop() noexcept = 0;
};

}  // namespace weir::gateway::upstream
