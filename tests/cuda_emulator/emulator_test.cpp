// The emulator itself: what it computes, and that it refuses what a device would hang on or refuse.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdio>
#include <random>
#include <vector>

#include "kernels/dtype.hpp"
#include "tests/cuda_emulator/cuda_runtime.h"

namespace {

using namespace weir::kernels;
using cuda_emulator::run;

// Whether the body ends its process with abort(); what it says goes nowhere.
template <class Body>
bool aborts(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    REQUIRE(std::freopen("/dev/null", "w", stderr) != nullptr);
    std::signal(SIGABRT, SIG_DFL);
    body();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

std::array<std::uint16_t, 8 * 32> numbered_rows() {
  std::array<std::uint16_t, 8 * 32> out{};
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::uint16_t>(i);
  return out;
}

}  // namespace

TEST_CASE("every thread of every block runs once", "[emulator]") {
  std::vector<int> seen(2 * 3 * 2 * 40, 0);
  run(dim3(2, 3, 2), dim3(40), 0, [&] {
    const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    ++seen[block * blockDim.x + threadIdx.x];
  });
  CHECK(seen == std::vector<int>(seen.size(), 1));
}

TEST_CASE("a barrier lets all see what all wrote, and without one somebody does not", "[emulator]") {
  const auto reversed = [](bool barrier) {
    std::vector<int> out(256, -1);
    run(dim3(1), dim3(256), 256 * sizeof(int), [&] {
      int* const shared = static_cast<int*>(cuda_emulator::dynamic_shared());
      const auto me = static_cast<int>(threadIdx.x);
      shared[me] = me;
      if (barrier) __syncthreads();
      out[static_cast<std::size_t>(me)] = shared[255 - me];
    });
    for (int i = 0; i < 256; ++i) {
      if (out[static_cast<std::size_t>(i)] != 255 - i) return false;
    }
    return true;
  };
  CHECK(reversed(true));
  CHECK_FALSE(reversed(false));
}

TEST_CASE("named barriers join some warps while others go on", "[emulator]") {
  int sum = 0;
  bool right = false;
  run(dim3(1), dim3(96), 0, [&] {
    if (threadIdx.x < 64) {
      ++sum;
      cuda_emulator::named_barrier(3, 64);
      if (threadIdx.x == 5) right = sum == 64;
    }
    __syncthreads();
  });
  CHECK(right);
}

TEST_CASE("shuffles, votes and reductions", "[emulator]") {
  int wrong = 0;
  run(dim3(1), dim3(64), 0, [&] {
    const int lane = cuda_emulator::lane();
    wrong += __shfl_sync(~0U, lane, 7) != 7;
    wrong += __shfl_xor_sync(~0U, lane, 9) != (lane ^ 9);
    wrong += __shfl_down_sync(~0U, lane, 3) != (lane < 29 ? lane + 3 : lane);
    wrong += __shfl_up_sync(~0U, lane, 3) != (lane >= 3 ? lane - 3 : lane);
    wrong += __shfl_sync(~0U, lane, 1, 8) != lane / 8 * 8 + 1;
    wrong += __shfl_xor_sync(~0U, 0.5 * lane, 1) != 0.5 * (lane ^ 1);
    wrong += __ballot_sync(~0U, lane % 3 == 0) != 0x49249249U;
    wrong += __any_sync(~0U, lane == 40) != 0;
    wrong += __reduce_max_sync(~0U, static_cast<unsigned>(lane * 7 % 32) + 3U) != 34U;
    wrong += __reduce_min_sync(~0U, static_cast<unsigned>(lane * 7 % 32) + 3U) != 3U;
    if (lane < 16) wrong += __shfl_xor_sync(0xFFFFU, lane, 1) != (lane ^ 1);
  });
  CHECK(wrong == 0);
}

TEST_CASE("mma is the product of its tiles", "[emulator]") {
  std::mt19937_64 random(5);
  std::array<std::uint16_t, 16 * 16> a{};
  std::array<std::uint16_t, 8 * 16> b{};  // [n, k]
  const auto small = [&] { return float_to_bf16(static_cast<float>(static_cast<int>(random() % 17) - 8)); };
  for (auto& value : a) value = small();
  for (auto& value : b) value = small();
  std::array<float, 16 * 8> c{};
  run(dim3(1), dim3(32), 0, [&] {
    const int row = cuda_emulator::lane() / 4, col = cuda_emulator::lane() % 4 * 2;
    const auto pair = [](const std::uint16_t* at) { return static_cast<std::uint32_t>(at[1]) << 16 | at[0]; };
    const std::uint32_t left[4] = {pair(&a[row * 16 + col]), pair(&a[(row + 8) * 16 + col]),
                                   pair(&a[row * 16 + col + 8]), pair(&a[(row + 8) * 16 + col + 8])};
    const std::uint32_t right[2] = {pair(&b[row * 16 + col]), pair(&b[row * 16 + col + 8])};
    float sum[4] = {1.0F, 1.0F, 1.0F, 1.0F};
    cuda_emulator::mma_bf16(sum, left, right);
    for (int i = 0; i < 4; ++i) c[(row + i / 2 * 8) * 8 + col + i % 2] = sum[i];
  });
  for (int row = 0; row < 16; ++row) {
    for (int col = 0; col < 8; ++col) {
      float expected = 1.0F;
      for (int k = 0; k < 16; ++k)
        expected += bf16_to_float(a[row * 16 + k]) * bf16_to_float(b[col * 16 + k]);
      CHECK(c[row * 8 + col] == expected);
    }
  }
}

TEST_CASE("tiles come as their rows, or transposed", "[emulator]") {
  alignas(16) const auto rows = numbered_rows();
  int wrong = 0;
  run(dim3(1), dim3(32), 0, [&] {
    const int lane = cuda_emulator::lane();
    const auto value = [&](int tile, int row, int col) {
      return static_cast<unsigned>((tile * 8 + row) * 8 + col);
    };
    std::uint32_t straight[4], turned[4];
    cuda_emulator::load_tiles(straight, &rows[lane * 8], false);
    cuda_emulator::load_tiles(turned, &rows[lane * 8], true);
    const int major = lane / 4, minor = lane % 4 * 2;
    for (int tile = 0; tile < 4; ++tile) {
      wrong += straight[tile] != (value(tile, major, minor + 1) << 16 | value(tile, major, minor));
      wrong += turned[tile] != (value(tile, minor + 1, major) << 16 | value(tile, minor, major));
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("asynchronous copies arrive when they are waited for and not before", "[emulator]") {
  alignas(16) const std::array<int, 8> from{1, 2, 3, 4, 5, 6, 7, 8};
  alignas(16) std::array<int, 12> to{};
  std::array<std::array<int, 3>, 4> seen{};
  run(dim3(1), dim3(1), 0, [&] {
    to.fill(-1);
    const auto look = [&] { return std::array<int, 3>{to[0], to[4], to[8]}; };
    cuda_emulator::copy_async16(&to[0], &from[0], true);
    cuda_emulator::commit_copies();
    cuda_emulator::copy_async16(&to[4], &from[4], true);
    cuda_emulator::copy_async16(&to[8], nullptr, false);
    seen[0] = look();
    cuda_emulator::wait_copies(0);
    seen[1] = look();
    cuda_emulator::commit_copies();
    cuda_emulator::wait_copies(1);
    seen[2] = look();
    cuda_emulator::wait_copies(0);
    seen[3] = look();
  });
  CHECK(seen[0] == std::array<int, 3>{-1, -1, -1});
  CHECK(seen[1] == std::array<int, 3>{1, -1, -1});  // the second group was not ended yet
  CHECK(seen[2] == std::array<int, 3>{1, -1, -1});
  CHECK(seen[3] == std::array<int, 3>{1, 5, 0});
}

TEST_CASE("a block finds no zeros in shared memory", "[emulator]") {
  bool number = true;
  run(dim3(1), dim3(1), 4, [&] { number = *static_cast<float*>(cuda_emulator::dynamic_shared()) == 0.0F; });
  CHECK_FALSE(number);
}

TEST_CASE("what hangs or is refused on a device aborts", "[emulator]") {
  const auto nothing = [] {};
  CHECK_FALSE(aborts([&] { run(dim3(1), dim3(32), 0, nothing); }));
  CHECK(aborts([&] { run(dim3(1), dim3(1025), 0, nothing); }));
  CHECK(aborts([&] { run(dim3(1, 65536), dim3(1), 0, nothing); }));
  CHECK(aborts([&] { run(dim3(1), dim3(1), 228 << 10, nothing); }));
  // Half of a warp waits in an operation that names the other half, which has gone to a barrier or ended.
  CHECK(aborts([&] {
    run(dim3(1), dim3(32), 0, [] {
      if (threadIdx.x < 16)
        __syncwarp();
      else
        __syncthreads();
    });
  }));
  CHECK(aborts([&] {
    run(dim3(1), dim3(32), 0, [] {
      if (threadIdx.x < 16) __shfl_xor_sync(~0U, 1, 1);
    });
  }));
  CHECK(aborts([&] { run(dim3(1), dim3(32), 0, [] { __shfl_xor_sync(0xFU, 1, 1); }); }));
  CHECK(aborts([&] {
    run(dim3(1), dim3(64), 0, [] {
      if (threadIdx.x < 32) cuda_emulator::named_barrier(1, 64);
    });
  }));
  CHECK(aborts([&] { run(dim3(1), dim3(64), 0, [] { cuda_emulator::named_barrier(1, 32); }); }));
  CHECK(aborts([&] {
    alignas(16) static std::array<char, 64> bytes{};
    run(dim3(1), dim3(1), 0, [] { cuda_emulator::copy_async16(&bytes[0], &bytes[20], true); });
  }));
}
