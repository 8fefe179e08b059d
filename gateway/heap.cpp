#include "gateway/heap.hpp"

#include <malloc.h>

namespace weir::gateway {

namespace {

constexpr int k_kept_bytes = 128 << 20;        // at the end of each thread's heap
constexpr int k_direct_from_bytes = 32 << 20;  // larger blocks come straight from the system

}  // namespace

void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, k_direct_from_bytes);
  mallopt(M_TRIM_THRESHOLD, k_kept_bytes);
}

void idle_trim::tick(bool busy) {
  if (busy) {
    idle_ticks_ = 0;
  } else if (idle_ticks_ < k_idle_ticks && ++idle_ticks_ == k_idle_ticks) {
    malloc_trim(0);
  }
}

}  // namespace weir::gateway
