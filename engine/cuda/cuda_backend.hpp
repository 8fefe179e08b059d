// The backend for NVIDIA devices. Linked into programs that are built with CUDA; the others link a function
// that does nothing (no_cuda.cpp).
#pragma once

namespace weir::engine::cuda {

// Once, before an engine is opened.
void link_backend() noexcept;

}  // namespace weir::engine::cuda
