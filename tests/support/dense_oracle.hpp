// An independent computation of a Kimi-Linear or Kimi K3 checkpoint's outputs, for tests: double precision,
// whole sequence at once, plain loops over dense arrays, latent attention expanded to full keys and values.
// Shares no code with the engine.
#pragma once

#include <vector>

#include "tests/support/random_checkpoint.hpp"

namespace weir::tests {

struct oracle_result {
  std::vector<std::vector<double>> logits;  // [P][V]
  std::vector<double> kda_state;            // Frobenius norm per KDA layer after the prompt
  double router_margin = 1e300;  // smallest gap between the last chosen and the first refused expert
};

oracle_result run_oracle(const random_checkpoint& model, const std::vector<int>& prompt);

}  // namespace weir::tests
