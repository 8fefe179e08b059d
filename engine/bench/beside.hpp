// What a long prompt costs those who are being answered, and what they cost it: sequences decode through the
// whole engine, scheduler and sampling included; then a prompt comes beside them. Compared with their pace
// before it came and behind it, since their own contexts grow meanwhile, and with the prompt alone. Blocks;
// any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/engine.hpp"
#include "engine/result.hpp"
#include "engine/runner/model_runner.hpp"

namespace weir::engine::bench {

struct beside_options {
  engine_config engine;  // model_dir is not read
  std::int32_t prompt_tokens = 4096;
  std::int32_t sequences = 8;
  std::int32_t context_tokens = 128;  // that each of them has before it decodes
  std::int32_t calm_steps = 60;       // tokens of each before the prompt comes, and behind it
  std::function<void(const std::string&)> progress;
};

struct gap_summary {
  std::int64_t count = 0;
  double p50_s = 0;
  double p95_s = 0;
  double longest_s = 0;
};

struct beside_report {
  double alone_s = 0;   // the prompt's first token, with nothing else running
  double beside_s = 0;  // the same beside the others
  gap_summary calm;     // between tokens of a sequence, before the prompt came
  gap_summary busy;     // while it was computed
  gap_summary after;    // and behind it, where their contexts are as long as it made them wait for
};

// errc::bad_request for what the engine refuses.
result<beside_report> measure_beside(std::shared_ptr<const runner::loaded_model> model,
                                     const beside_options& options);

}  // namespace weir::engine::bench
