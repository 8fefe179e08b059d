// How many tokens of prompts go beside decoding sequences in a step, so that these wait no longer for their
// next token than `stretch` times what they would wait without. Learns from steps what decode takes and what
// a prompt's token adds; where it knows nothing yet it begins small. What is computed does not depend on it,
// only when. Pure; one thread.
#pragma once

#include <cstdint>

namespace weir::engine::scheduler {

class prompt_pace final {
 public:
  // `stretch` >= 1; 0: no limit.
  explicit prompt_pace(double stretch) noexcept : stretch_(stretch) {}

  // For the next step, if it has decoding sequences: at least 1, but 0 now and then, to see what decode
  // takes.
  std::int32_t budget() const noexcept;

  // A step with `decoding` sequences and `prompt` tokens of prompts took so long.
  void note(std::int32_t decoding, std::int32_t prompt, double seconds) noexcept;

 private:
  double stretch_;
  double decode_s_ = 0;     // of a step without prompts
  double token_s_ = 0;      // that a prompt's token adds
  std::int32_t last_ = 0;   // tokens of the last mixed step
  std::int32_t mixed_ = 0;  // such steps since the last without prompts
};

}  // namespace weir::engine::scheduler
