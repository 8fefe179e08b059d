#include <algorithm>

#include "kernels/cpu/ops.hpp"
#include "kernels/cpu/product.hpp"

namespace weir::kernels::cpu {

namespace {

// Rounding and moving a value costs about as much as this many multiply-adds.
constexpr std::int64_t k_prepare_work = 4;

// The workspace: prepared rows, then the workers' scratch.
void multiply(const product& how, const gemm_params<float>& p, std::size_t row_bytes, const context& ctx) {
  const std::int64_t block = block_rows(row_bytes, p.rows);
  const std::int64_t units = (p.b.rows + k_column_unit - 1) / k_column_unit;
  std::byte* scratch = ctx.workspace + row_bytes * static_cast<std::size_t>(p.rows);
  const std::size_t scratch_bytes = how.scratch_bytes(p.b.cols);
  for (std::int64_t row = 0; row < p.rows; row += block) {
    const std::int64_t rows = std::min(block, p.rows - row);
    split(ctx, units, k_column_unit * rows * p.b.cols, [&](std::int64_t begin, std::int64_t end, int worker) {
      how.columns(
          {ctx.workspace + static_cast<std::size_t>(row) * row_bytes, row_bytes, rows, &p.b,
           p.c + row * p.b.rows, p.b.rows, scratch + static_cast<std::size_t>(worker) * scratch_bytes},
          begin * k_column_unit, std::min<std::int64_t>(end * k_column_unit, p.b.rows));
    });
  }
}

}  // namespace

template <activation_format Format>
std::size_t gemm_workspace_bytes(const gemm_params<float>& p, int thread_count) {
  const product how = product_of(p.b.type, Format);
  return how.row_bytes(p.b.cols) * static_cast<std::size_t>(p.rows) +
         how.scratch_bytes(p.b.cols) * static_cast<std::size_t>(thread_count);
}

template <activation_format Format>
void gemm(const gemm_params<float>& p, const context& ctx) {
  if (p.rows == 0) return;
  const product how = product_of(p.b.type, Format);
  const std::size_t row_bytes = how.row_bytes(p.b.cols);
  split(ctx, p.rows, p.b.cols * k_prepare_work, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = begin; row < end; ++row) {
      how.prepare(p.a + row * p.b.cols, p.b.cols, ctx.workspace + static_cast<std::size_t>(row) * row_bytes);
    }
  });
  multiply(how, p, row_bytes, ctx);
}

template void gemm<activation_format::float32>(const gemm_params<float>&, const context&);
template void gemm<activation_format::narrow>(const gemm_params<float>&, const context&);
template std::size_t gemm_workspace_bytes<activation_format::float32>(const gemm_params<float>&, int);
template std::size_t gemm_workspace_bytes<activation_format::narrow>(const gemm_params<float>&, int);

}  // namespace weir::kernels::cpu
