#include "kernels/ref/ops.hpp"

namespace weir::kernels::ref {

void rmsnorm(const rmsnorm_params<double>& p, const context&) {
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const double* x = p.x + row * p.stride;
    double* y = p.y + row * p.stride;
    double squares = 0.0;
    for (std::int32_t i = 0; i < p.dim; ++i) squares += x[i] * x[i];
    const double factor = 1.0 / std::sqrt(squares / p.dim + p.eps);
    for (std::int32_t i = 0; i < p.dim; ++i) y[i] = x[i] * factor * static_cast<double>(p.weight[i]);
  }
}

void l2norm(const l2norm_params<double>& p, const context&) {
  for (std::int64_t row = 0; row < p.rows; ++row) {
    double* x = p.x + row * p.dim;
    double squares = 0.0;
    for (std::int32_t i = 0; i < p.dim; ++i) squares += x[i] * x[i];
    const double factor = p.scale / std::sqrt(squares + p.eps);
    for (std::int32_t i = 0; i < p.dim; ++i) x[i] *= factor;
  }
}

void gated_norm(const gated_norm_params<double>& p, const context&) {
  for (std::int64_t row = 0; row < p.rows; ++row) {
    double* o = p.o + row * p.dim;
    const double* gate = p.gate + row * p.dim;
    double squares = 0.0;
    for (std::int32_t i = 0; i < p.dim; ++i) squares += o[i] * o[i];
    const double factor = 1.0 / std::sqrt(squares / p.dim + p.eps);
    for (std::int32_t i = 0; i < p.dim; ++i) {
      o[i] = o[i] * factor * static_cast<double>(p.weight[i]) * sigmoid(gate[i]);
    }
  }
}

}  // namespace weir::kernels::ref
