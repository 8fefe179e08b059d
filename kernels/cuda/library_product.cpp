#include "kernels/cuda/library_product.hpp"

#include <cublasLt.h>

namespace weir::kernels::cuda {

namespace {

// What the library asks for on the architectures of 2022 and later.
constexpr std::size_t k_workspace_bytes = 32 << 20;

// Lives as long as the process; null where the library could not start.
cublasLtHandle_t handle() {
  static const cublasLtHandle_t k_handle = [] {
    cublasLtHandle_t out = nullptr;
    return cublasLtCreate(&out) == CUBLAS_STATUS_SUCCESS ? out : nullptr;
  }();
  return k_handle;
}

// The library counts columns first: c, [cols, rows] of it, is b transposed times a.
struct plan {
  cublasLtMatmulDescOpaque_t product;
  cublasLtMatrixLayoutOpaque_t a, b, c;
  cublasLtMatmulHeuristicResult_t way;
};

bool make_plan(const library_product& p, plan& out) {
  const cublasOperation_t transposed = CUBLAS_OP_T;
  const auto rows = static_cast<std::uint64_t>(p.rows);
  const auto cols = static_cast<std::uint64_t>(p.cols);
  const auto depth = static_cast<std::uint64_t>(p.depth);
  cublasLtMatmulPreferenceOpaque_t wish;
  int found = 0;
  return cublasLtMatmulDescInit(&out.product, CUBLAS_COMPUTE_32F, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS &&
         cublasLtMatmulDescSetAttribute(&out.product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                        sizeof transposed) == CUBLAS_STATUS_SUCCESS &&
         cublasLtMatrixLayoutInit(&out.b, CUDA_R_16BF, depth, cols, p.depth) == CUBLAS_STATUS_SUCCESS &&
         cublasLtMatrixLayoutInit(&out.a, CUDA_R_16BF, depth, rows, p.pitch) == CUBLAS_STATUS_SUCCESS &&
         cublasLtMatrixLayoutInit(&out.c, CUDA_R_32F, cols, rows, p.cols) == CUBLAS_STATUS_SUCCESS &&
         cublasLtMatmulPreferenceInit(&wish) == CUBLAS_STATUS_SUCCESS &&
         cublasLtMatmulPreferenceSetAttribute(&wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                              &k_workspace_bytes,
                                              sizeof k_workspace_bytes) == CUBLAS_STATUS_SUCCESS &&
         cublasLtMatmulAlgoGetHeuristic(handle(), &out.product, &out.b, &out.a, &out.c, &out.c, &wish, 1,
                                        &out.way, &found) == CUBLAS_STATUS_SUCCESS &&
         found == 1;
}

}  // namespace

bool multiply_by_library(const library_product& p) {
  plan how;
  if (handle() == nullptr || !make_plan(p, how)) return false;
  const float one = 1.0F;
  // The smallest parts first.
  for (int part = p.parts - 1; part >= 0; --part) {
    const float kept = part == p.parts - 1 ? 0.0F : 1.0F;
    const auto status = cublasLtMatmul(
        handle(), &how.product, &one, p.b, &how.b, p.a + part * p.rows * p.pitch, &how.a, &kept, p.c, &how.c,
        p.c, &how.c, &how.way.algo, p.workspace, k_workspace_bytes, static_cast<cudaStream_t>(p.stream));
    if (status != CUBLAS_STATUS_SUCCESS) return false;  // who comes after writes all of c again
  }
  return true;
}

std::size_t library_workspace_bytes() {
  return k_workspace_bytes;
}

}  // namespace weir::kernels::cuda
