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

void add(const add_params<double>& p, const context&) {
  for (std::int64_t i = 0; i < p.count; ++i) p.x[i] += p.y[i];
}

}  // namespace weir::kernels::ref
