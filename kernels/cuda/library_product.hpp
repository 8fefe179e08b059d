// A product by the vendor's library, for many tokens beside bf16 weights. Two sources define it, and the
// build links one: library_product.cpp where there is the library, library_product_none.cpp elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::kernels::cuda {

// c = sum over parts of a[part] b^T; all on the device, rows one behind the other.
struct library_product {
  const std::uint16_t* a;  // [parts, rows, pitch]
  const void* b;           // [cols, depth]
  float* c;                // [rows, cols]
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t depth;
  std::int64_t pitch;
  int parts;
  void* workspace;  // library_workspace_bytes() of it
  void* stream;
};

// False: not done, and nothing is on the stream.
bool multiply_by_library(const library_product& p);

std::size_t library_workspace_bytes();

}  // namespace weir::kernels::cuda
