// The program's heap in memory that the device reaches as well, so that the tests of kernels/cuda/, written
// for the emulator, run on a real device as they are. One arena of managed memory, pieces by powers of two.
#include <cuda_runtime_api.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>

namespace {

constexpr std::size_t k_arena_bytes = std::size_t{2} << 30;
constexpr std::size_t k_least = 256;  // what cudaMalloc aligns to
constexpr std::size_t k_classes = 48;

struct piece {
  piece* next;
};

struct heap {
  std::mutex mutex;
  std::byte* arena = nullptr;
  std::size_t used = 0;
  std::array<piece*, k_classes> unused{};
};

heap& the_heap() {
  static heap out;
  return out;
}

std::size_t class_of(std::size_t bytes) {
  return static_cast<std::size_t>(std::bit_width(std::bit_ceil(bytes < k_least ? k_least : bytes)) - 1);
}

// In front of each piece, to know its class when it comes back.
constexpr std::size_t k_head = k_least;

void* take(std::size_t bytes) {
  heap& h = the_heap();
  const std::lock_guard lock(h.mutex);
  if (h.arena == nullptr) {
    void* memory = nullptr;
    if (const auto code = cudaMallocManaged(&memory, k_arena_bytes); code != cudaSuccess) {
      std::fprintf(stderr, "SKIP: no CUDA device to test on: %s\n", cudaGetErrorString(code));
      std::_Exit(77);
    }
    h.arena = static_cast<std::byte*>(memory);
  }
  const std::size_t which = class_of(bytes);
  if (piece* const found = h.unused[which]; found != nullptr) {
    h.unused[which] = found->next;
    return found;
  }
  const std::size_t whole = k_head + (std::size_t{1} << which);
  if (whole > k_arena_bytes - h.used) throw std::bad_alloc();
  std::byte* const begin = h.arena + h.used;
  h.used += whole;
  *reinterpret_cast<std::size_t*>(begin) = which;
  return begin + k_head;
}

void give_back(void* memory) noexcept {
  if (memory == nullptr) return;
  heap& h = the_heap();
  const std::lock_guard lock(h.mutex);
  const std::size_t which = *reinterpret_cast<std::size_t*>(static_cast<std::byte*>(memory) - k_head);
  auto* const freed = static_cast<piece*>(memory);
  freed->next = h.unused[which];
  h.unused[which] = freed;
}

}  // namespace

void* operator new(std::size_t bytes) {
  return take(bytes);
}
void* operator new(std::size_t bytes, std::align_val_t) {
  return take(bytes);
}
void operator delete(void* memory) noexcept {
  give_back(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  give_back(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  give_back(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  give_back(memory);
}
