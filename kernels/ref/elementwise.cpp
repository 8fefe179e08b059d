#include <algorithm>

#include "kernels/ref/ops.hpp"

namespace weir::kernels::ref {

void embed(const embed_params<double>& p, const context&) {
  for (std::int64_t row = 0; row < p.rows; ++row) {
    for (std::int32_t i = 0; i < p.table.cols; ++i) p.y[row * p.table.cols + i] = at(p.table, p.ids[row], i);
  }
}

void silu_mul(const silu_mul_params<double>& p, const context&) {
  for (std::int64_t i = 0; i < p.count; ++i) p.gate[i] = silu(p.gate[i]) * p.up[i];
}

void situ_mul(const situ_mul_params<double>& p, const context&) {
  const double beta = p.situ.beta;
  const double linear = p.situ.linear_beta;
  for (std::int64_t i = 0; i < p.count; ++i) {
    const double gate = beta * std::tanh(p.gate[i] / beta) * sigmoid(p.gate[i]);
    p.gate[i] = gate * linear * std::tanh(p.up[i] / linear);
  }
}

void sigmoid_mul(const sigmoid_mul_params<double>& p, const context&) {
  for (std::int64_t i = 0; i < p.count; ++i) p.x[i] *= sigmoid(p.gate[i]);
}

void gather(const gather_params<double>& p, const context&) {
  for (std::int64_t row = 0; row < p.rows; ++row) {
    std::copy_n(p.x + static_cast<std::int64_t>(p.ids[row]) * p.dim, p.dim, p.y + row * p.dim);
  }
}

void add(const add_params<double>& p, const context&) {
  for (std::int64_t i = 0; i < p.count; ++i) p.x[i] += p.y[i];
}

}  // namespace weir::kernels::ref
