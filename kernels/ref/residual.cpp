#include <algorithm>

#include "kernels/ref/ops.hpp"

namespace weir::kernels::ref {

void residual_mix(const residual_mix_params<double>& p, const context&) {
  const std::int64_t dim = p.dim;
  const auto source = [&p, dim](std::int64_t index, std::int64_t row) {
    return index < p.block_count ? p.blocks + (index * p.rows + row) * dim : p.current + row * dim;
  };
  double score[k_residual_sources_max];
  for (std::int64_t row = 0; row < p.rows; ++row) {
    for (std::int32_t s = 0; s <= p.block_count; ++s) {
      const double* v = source(s, row);
      double squares = 0.0;
      double sum = 0.0;
      for (std::int64_t i = 0; i < dim; ++i) {
        squares += v[i] * v[i];
        sum += v[i] * static_cast<double>(p.norm[i]) * static_cast<double>(p.proj[i]);
      }
      score[s] = sum / std::sqrt(squares / static_cast<double>(dim) + p.eps);
    }
    const double largest = *std::max_element(score, score + p.block_count + 1);
    double total = 0.0;
    for (std::int32_t s = 0; s <= p.block_count; ++s) total += score[s] = std::exp(score[s] - largest);
    double* y = p.y + row * dim;
    std::fill_n(y, dim, 0.0);
    for (std::int32_t s = 0; s <= p.block_count; ++s) {
      const double* v = source(s, row);
      for (std::int64_t i = 0; i < dim; ++i) y[i] += score[s] / total * v[i];
    }
  }
}

}  // namespace weir::kernels::ref
