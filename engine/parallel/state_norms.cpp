#include "engine/parallel/state_norms.hpp"

#include <cmath>
#include <cstddef>
#include <span>

#include "engine/model/model_config.hpp"

namespace weir::engine::parallel {

static_assert(sizeof(double) * model::k_layers_max <= k_exchange_bytes_max);

std::vector<double> joint_norms(communicator& ranks, std::vector<double> own) {
  std::vector<double> all(own.size() * static_cast<std::size_t>(ranks.size()));
  ranks.exchange(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(all)), patience::step);
  for (std::size_t layer = 0; layer < own.size(); ++layer) {
    double squares = 0.0;
    for (std::size_t at = layer; at < all.size(); at += own.size()) squares += all[at] * all[at];
    own[layer] = std::sqrt(squares);
  }
  return own;
}

}  // namespace weir::engine::parallel
