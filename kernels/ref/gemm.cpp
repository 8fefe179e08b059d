#include "kernels/ref/ops.hpp"

namespace weir::kernels::ref {

namespace {

template <class Load>
void gemm_rows(const gemm_params<double>& p, Load load) {
  const std::int64_t cols = p.b.cols;
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const double* a = p.a + row * cols;
    for (std::int64_t n = 0; n < p.b.rows; ++n) {
      double sum = 0.0;
      for (std::int64_t k = 0; k < cols; ++k) sum += a[k] * load(n * cols + k);
      p.c[row * p.b.rows + n] = sum;
    }
  }
}

}  // namespace

void gemm(const gemm_params<double>& p, const context&) {
  const auto* halves = static_cast<const std::uint16_t*>(p.b.data);
  const auto* floats = static_cast<const float*>(p.b.data);
  switch (p.b.type) {
    case dtype::f32:
      return gemm_rows(p, [floats](std::int64_t i) { return static_cast<double>(floats[i]); });
    case dtype::bf16:
      return gemm_rows(p, [halves](std::int64_t i) { return static_cast<double>(bf16_to_float(halves[i])); });
    case dtype::f16:
      return gemm_rows(p, [halves](std::int64_t i) { return static_cast<double>(f16_to_float(halves[i])); });
    case dtype::mxfp4:
      return gemm_rows(p, [&p](std::int64_t i) {
        return static_cast<double>(load_mxfp4(p.b.data, p.b.exponents(), static_cast<std::size_t>(i)));
      });
    case dtype::int8:
      return gemm_rows(p, [&p](std::int64_t i) {
        return static_cast<double>(load_int8(p.b.data, p.b.factors(), static_cast<std::size_t>(i)));
      });
  }
}

}  // namespace weir::kernels::ref
