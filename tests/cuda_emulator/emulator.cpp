#include "tests/cuda_emulator/cuda_runtime.h"
#include "tests/cuda_emulator/stack_switch.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace cuda_emulator {

namespace {

constexpr std::size_t k_stack_bytes = 256 << 10;
constexpr std::size_t k_shared_max = 227 << 10;  // of a block on sm_90
constexpr unsigned k_threads_max = 1024;
constexpr int k_barriers = 16;  // of a block; the first is __syncthreads'

[[noreturn]] void refuse(const char* what) {
  std::fprintf(stderr, "cuda emulator: %s (block %u,%u,%u thread %u,%u,%u)\n", what, blockIdx.x, blockIdx.y,
               blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
  std::abort();
}

enum class waits : std::uint8_t { nothing, warp, named, block, ended };

struct pending_copy {
  void* to;
  const void* from;  // null: zeros
  std::size_t group;
};

struct fiber {
  stack_switch context;
  std::unique_ptr<std::byte[]> stack = std::make_unique_for_overwrite<std::byte[]>(k_stack_bytes);
  uint3 index;
  waits state = waits::nothing;
  unsigned mask = 0;  // of the warp operation that it waits in
  int barrier = 0;    // the named one that it waits at, and how many it expects there
  int expected = 0;
  std::vector<pending_copy> copies;
  std::size_t groups = 0;  // committed
  unsigned exchanges = 0;  // parity picks the buffer: a lane can be one operation ahead of another's reading
};

// Blocks are run one after another, so their parts are reused.
struct machine {
  std::vector<std::unique_ptr<fiber>> fibers;
  std::vector<std::byte> exchanged;  // [warps, 2, lanes, k_exchange_bytes]
  alignas(128) std::byte shared[k_shared_max];
  stack_switch scheduler;
  std::size_t shared_bytes = 0;
  std::size_t current = 0;
  std::size_t count = 0;
  std::uint32_t round = 1;
  void (*body)(void*) = nullptr;
  void* argument = nullptr;
#if defined(__SANITIZE_ADDRESS__)
  const void* scheduler_stack = nullptr;
  std::size_t scheduler_stack_bytes = 0;
#endif
};

machine& the_machine() {
  static machine out;
  return out;
}

void to_scheduler(bool last) {
  machine& m = the_machine();
  fiber& me = *m.fibers[m.current];
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(last ? nullptr : &fake, m.scheduler_stack, m.scheduler_stack_bytes);
  stack_switch::jump(me.context, m.scheduler);
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#else
  static_cast<void>(last);
  stack_switch::jump(me.context, m.scheduler);
#endif
}

void enter() {
  machine& m = the_machine();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &m.scheduler_stack, &m.scheduler_stack_bytes);
#endif
  m.body(m.argument);
  m.fibers[m.current]->state = waits::ended;
  to_scheduler(true);
}

void resume(std::size_t which) {
  machine& m = the_machine();
  m.current = which;
  fiber& to = *m.fibers[which];
  threadIdx = to.index;
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, to.stack.get(), k_stack_bytes);
  stack_switch::jump(m.scheduler, to.context);
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#else
  stack_switch::jump(m.scheduler, to.context);
#endif
}

void start(std::size_t which, dim3 block) {
  machine& m = the_machine();
  if (which == m.fibers.size()) m.fibers.push_back(std::make_unique<fiber>());
  fiber& f = *m.fibers[which];
  const auto linear = static_cast<unsigned>(which);
  f.index = {linear % block.x, linear / block.x % block.y, linear / block.x / block.y};
  f.state = waits::nothing;
  f.exchanges = 0;
  f.copies.clear();
  f.groups = 0;
#if defined(__SANITIZE_ADDRESS__)
  // The last frame of the thread that had this stack before never returned.
  __asan_unpoison_memory_region(f.stack.get(), k_stack_bytes);
#endif
  f.context.prepare(f.stack.get(), k_stack_bytes, enter);
}

// Lets those go on whose warp operation has all its lanes. Whether any could.
bool release_warps() {
  machine& m = the_machine();
  bool any = false;
  for (std::size_t first = 0; first < m.count; first += k_lanes) {
    const std::size_t lanes = std::min<std::size_t>(k_lanes, m.count - first);
    const unsigned there = lanes == k_lanes ? ~0U : (1U << lanes) - 1U;
    unsigned waiting = 0;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      if (m.fibers[first + lane]->state == waits::warp) waiting |= 1U << lane;
    }
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      fiber& f = *m.fibers[first + lane];
      if ((waiting >> lane & 1U) == 0 || (f.mask & there & ~waiting) != 0) continue;
      for (std::size_t other = 0; other < lanes; ++other) {
        const bool joined = (f.mask >> other & 1U) != 0;
        if (joined && m.fibers[first + other]->mask != f.mask)
          refuse("lanes of one operation differ in their masks");
      }
      f.state = waits::nothing;
      any = true;
    }
  }
  return any;
}

// Lets those go on at whose named barrier all have come. Whether any could.
bool release_named() {
  machine& m = the_machine();
  bool any = false;
  for (int id = 1; id < k_barriers; ++id) {
    int there = 0, expected = 0;
    for (std::size_t i = 0; i < m.count; ++i) {
      const fiber& f = *m.fibers[i];
      if (f.state != waits::named || f.barrier != id) continue;
      if (there++ != 0 && f.expected != expected) refuse("threads differ in how many a barrier waits for");
      expected = f.expected;
    }
    if (there == 0 || there < expected) continue;
    if (there > expected) refuse("more threads at a barrier than it waits for");
    for (std::size_t i = 0; i < m.count; ++i) {
      fiber& f = *m.fibers[i];
      if (f.state == waits::named && f.barrier == id) f.state = waits::nothing;
    }
    any = true;
  }
  return any;
}

bool release_block() {
  machine& m = the_machine();
  bool any = false;
  for (std::size_t i = 0; i < m.count; ++i) {
    if (m.fibers[i]->state == waits::warp || m.fibers[i]->state == waits::named) return false;
    any = any || m.fibers[i]->state == waits::block;
  }
  for (std::size_t i = 0; i < m.count; ++i) {
    if (m.fibers[i]->state == waits::block) m.fibers[i]->state = waits::nothing;
  }
  return any;
}

bool all_ended() {
  const machine& m = the_machine();
  for (std::size_t i = 0; i < m.count; ++i) {
    if (m.fibers[i]->state != waits::ended) return false;
  }
  return true;
}

void run_block(dim3 block) {
  machine& m = the_machine();
  for (std::size_t i = 0; i < m.count; ++i) start(i, block);
  // What a block finds in shared memory is whatever was there; NaN shows who relies on it.
  std::memset(m.shared, 0xFF, m.shared_bytes);
  while (!all_ended()) {
    m.round = m.round * 1664525U + 1013904223U;
    const std::size_t first = (m.round >> 8) % m.count;
    const bool down = (m.round >> 31) != 0;
    for (std::size_t n = 0; n < m.count; ++n) {
      const std::size_t i = (down ? first + m.count - n : first + n) % m.count;
      if (m.fibers[i]->state == waits::nothing) resume(i);
    }
    if (!release_warps() && !release_named() && !release_block() && !all_ended())
      refuse("threads wait for one another");
  }
}

}  // namespace

const std::byte* exchange(unsigned mask, const void* mine, std::size_t bytes) {
  machine& m = the_machine();
  fiber& me = *m.fibers[m.current];
  if (bytes > k_exchange_bytes) refuse("a value too large to exchange");
  if ((mask >> (m.current % k_lanes) & 1U) == 0) refuse("a lane outside its own mask");
  const std::size_t buffer = m.current / k_lanes * 2 + me.exchanges++ % 2;
  std::byte* const shown = m.exchanged.data() + buffer * k_lanes * k_exchange_bytes;
  std::memcpy(shown + m.current % k_lanes * k_exchange_bytes, mine, bytes);
  me.mask = mask;
  me.state = waits::warp;
  to_scheduler(false);
  return shown;
}

void block_barrier() {
  machine& m = the_machine();
  m.fibers[m.current]->state = waits::block;
  to_scheduler(false);
}

void named_barrier(int id, int count) {
  machine& m = the_machine();
  if (id < 1 || id >= k_barriers) refuse("a barrier without that number");
  if (count % k_lanes != 0) refuse("a barrier for a part of a warp");
  fiber& me = *m.fibers[m.current];
  me.barrier = id;
  me.expected = count;
  me.state = waits::named;
  to_scheduler(false);
}

void mma_bf16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  struct operands {
    std::uint32_t a[4];
    std::uint32_t b[2];
  } mine;
  std::memcpy(mine.a, a, sizeof mine.a);
  std::memcpy(mine.b, b, sizeof mine.b);
  const std::byte* shown = exchange(~0U, &mine, sizeof mine);
  const auto half = [](std::uint32_t pair, int which) {
    const std::uint32_t bits = which == 0 ? pair << 16 : pair & 0xFFFF0000U;
    float out;
    std::memcpy(&out, &bits, sizeof out);
    return out;
  };
  const int row = lane() / 4;
  const int col = lane() % 4 * 2;
  for (int i = 0; i < 4; ++i) {
    const int high_row = i / 2;
    float sum = 0.0F;
    for (int k = 0; k < 16; k += 2) {
      const auto left = lane_value<operands>(shown, row * 4 + k % 8 / 2).a[k / 8 * 2 + high_row];
      const auto right = lane_value<operands>(shown, (col + i % 2) * 4 + k % 8 / 2).b[k / 8];
      sum += half(left, 0) * half(right, 0);
      sum += half(left, 1) * half(right, 1);
    }
    c[i] += sum;
  }
}

void load_tiles(std::uint32_t (&out)[4], const void* shared_row, bool transposed) {
  if (reinterpret_cast<std::uintptr_t>(shared_row) % 16 != 0)
    refuse("a tile's row is not aligned to 16 bytes");
  struct row {
    std::uint16_t values[8];
  } mine;
  std::memcpy(&mine, shared_row, sizeof mine);
  const std::byte* shown = exchange(~0U, &mine, sizeof mine);
  const int major = lane() / 4;
  const int minor = lane() % 4 * 2;
  for (int tile = 0; tile < 4; ++tile) {
    const auto value = [&](int which, int col) {
      return lane_value<row>(shown, tile * 8 + which).values[col];
    };
    const std::uint16_t low = transposed ? value(minor, major) : value(major, minor);
    const std::uint16_t high = transposed ? value(minor + 1, major) : value(major, minor + 1);
    out[tile] = static_cast<std::uint32_t>(high) << 16 | low;
  }
}

void copy_async16(void* shared, const void* global, bool there) {
  machine& m = the_machine();
  fiber& me = *m.fibers[m.current];
  if (reinterpret_cast<std::uintptr_t>(shared) % 16 != 0 ||
      (there && reinterpret_cast<std::uintptr_t>(global) % 16 != 0)) {
    refuse("an asynchronous copy that is not aligned to 16 bytes");
  }
  me.copies.push_back({shared, there ? global : nullptr, me.groups});
}

void commit_copies() {
  machine& m = the_machine();
  ++m.fibers[m.current]->groups;
}

void wait_copies(int left) {
  constexpr std::size_t k_copy_bytes = 16;
  machine& m = the_machine();
  fiber& me = *m.fibers[m.current];
  std::erase_if(me.copies, [&](const pending_copy& copy) {
    if (copy.group + static_cast<std::size_t>(left) >= me.groups) return false;
    if (copy.from != nullptr) {
      std::memcpy(copy.to, copy.from, k_copy_bytes);
    } else {
      std::memset(copy.to, 0, k_copy_bytes);
    }
    return true;
  });
}

void* dynamic_shared() noexcept {
  return the_machine().shared;
}

void run_threads(dim3 grid, dim3 block, std::size_t shared_bytes, void (*body)(void*), void* argument) {
  machine& m = the_machine();
  m.count = static_cast<std::size_t>(block.x) * block.y * block.z;
  if (m.count == 0 || m.count > k_threads_max) refuse("a block has 1 to 1024 threads");
  if (shared_bytes > k_shared_max) refuse("too much dynamic shared memory");
  m.shared_bytes = shared_bytes;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7FFFFFFFU || grid.y > 65535 || grid.z > 65535) {
    refuse("a grid of a size that CUDA refuses");
  }
  m.body = body;
  m.argument = argument;
  m.exchanged.resize((m.count / k_lanes + 1) * 2 * k_lanes * k_exchange_bytes);
  blockDim = block;
  gridDim = grid;
  for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z) {
    for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y) {
      for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) run_block(block);
    }
  }
}

}  // namespace cuda_emulator
