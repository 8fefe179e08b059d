#include "engine/cuda/cuda_backend.hpp"

namespace weir::engine::cuda {

void link_backend() noexcept {}

}  // namespace weir::engine::cuda
