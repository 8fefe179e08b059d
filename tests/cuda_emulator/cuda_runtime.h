// The part of CUDA's runtime and device language that kernels/cuda/ uses, for a host without a GPU: the same
// sources are compiled by the host's compiler with this folder before the toolkit's. A launch runs its blocks
// one after another, the threads of a block as fibers that change at barriers and warp operations, in an
// order that differs from round to round. That proves indexing, barriers and arithmetic; it says nothing of
// speed, nor of memory ordering within a warp. One thread at a time.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __noinline__
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ static
#define __align__(bytes) alignas(bytes)

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
inline float2 make_float2(float x, float y) {
  return {x, y};
}
inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}
inline uint2 make_uint2(unsigned x, unsigned y) {
  return {x, y};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace cuda_emulator {

inline constexpr int k_lanes = 32;
inline constexpr std::size_t k_exchange_bytes = 64;  // that a lane can show the others at once

// Shows `mine` to the lanes of the warp and returns where all of them lie, k_exchange_bytes apart; what lanes
// outside `mask` show is undefined.
const std::byte* exchange(unsigned mask, const void* mine, std::size_t bytes);
void block_barrier();
void named_barrier(int id, int count);
void* dynamic_shared() noexcept;

template <class T>
T lane_value(const std::byte* shown, int lane) {
  T out;
  std::memcpy(&out, shown + static_cast<std::size_t>(lane) * k_exchange_bytes, sizeof(T));
  return out;
}

inline int lane() {
  return static_cast<int>((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % k_lanes);
}

// Runs body() once per thread. Aborts with a message where a real device would hang or refuse.
void run_threads(dim3 grid, dim3 block, std::size_t shared_bytes, void (*body)(void*), void* argument);

// Does it now, or notes it where a stream is captured (cuda_runtime_api.h).
void submit(std::function<void()> work);

template <class Body>
void run(dim3 grid, dim3 block, std::size_t shared_bytes, Body body) {
  submit([grid, block, shared_bytes, body]() mutable {
    run_threads(
        grid, block, shared_bytes, [](void* it) { (*static_cast<Body*>(it))(); }, &body);
  });
}

// The instructions of kernels/cuda/device.cuh. Copies are done when they are waited for, so that who does not
// wait reads what was there before.
void mma_bf16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]);
void load_tiles(std::uint32_t (&out)[4], const void* shared_row, bool transposed);
void copy_async16(void* shared, const void* global, bool there);
void commit_copies();
void wait_copies(int left);

}  // namespace cuda_emulator

inline void __syncthreads() {
  cuda_emulator::block_barrier();
}
inline void __syncwarp(unsigned mask = ~0U) {
  const int nothing = 0;
  cuda_emulator::exchange(mask, &nothing, sizeof nothing);
}
template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = cuda_emulator::k_lanes) {
  const std::byte* shown = cuda_emulator::exchange(mask, &value, sizeof value);
  const int me = cuda_emulator::lane();
  return cuda_emulator::lane_value<T>(shown, me / width * width + from % width);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = cuda_emulator::k_lanes) {
  const std::byte* shown = cuda_emulator::exchange(mask, &value, sizeof value);
  const int me = cuda_emulator::lane();
  const int other = me ^ bits;
  return cuda_emulator::lane_value<T>(shown, other / width == me / width ? other : me);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, int delta, int width = cuda_emulator::k_lanes) {
  const std::byte* shown = cuda_emulator::exchange(mask, &value, sizeof value);
  const int me = cuda_emulator::lane();
  return cuda_emulator::lane_value<T>(shown, me % width + delta < width ? me + delta : me);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, int delta, int width = cuda_emulator::k_lanes) {
  const std::byte* shown = cuda_emulator::exchange(mask, &value, sizeof value);
  const int me = cuda_emulator::lane();
  return cuda_emulator::lane_value<T>(shown, me % width >= delta ? me - delta : me);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  const std::byte* shown = cuda_emulator::exchange(mask, &predicate, sizeof predicate);
  unsigned out = 0;
  for (int lane = 0; lane < cuda_emulator::k_lanes; ++lane) {
    if ((mask >> lane & 1U) != 0 && cuda_emulator::lane_value<int>(shown, lane) != 0) out |= 1U << lane;
  }
  return out;
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
  const std::byte* shown = cuda_emulator::exchange(mask, &value, sizeof value);
  unsigned out = value;
  for (int lane = 0; lane < cuda_emulator::k_lanes; ++lane) {
    if ((mask >> lane & 1U) == 0) continue;
    out = std::max(out, cuda_emulator::lane_value<unsigned>(shown, lane));
  }
  return out;
}
inline unsigned __reduce_min_sync(unsigned mask, unsigned value) {
  return ~__reduce_max_sync(mask, ~value);
}
inline int __any_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) != 0;
}
// Integers of any type, as the device has them without a namespace.
template <class T>
T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
T max(T a, T b) {
  return a < b ? b : a;
}
template <class T>
T atomicAdd(T* to, T value) {
  const T before = *to;
  *to = static_cast<T>(before + value);
  return before;
}
template <class T>
T atomicMax(T* to, T value) {
  const T before = *to;
  if (value > before) *to = value;
  return before;
}
template <class T>
T __ldg(const T* from) {
  return *from;
}
inline void __threadfence() {}
inline float rsqrtf(float x) {
  return 1.0F / std::sqrt(x);
}
inline float __expf(float x) {
  return std::exp(x);
}
inline float __fdividef(float x, float y) {
  return x / y;
}
inline float __int_as_float(int x) {
  return std::bit_cast<float>(x);
}
inline long long __double_as_longlong(double x) {
  return std::bit_cast<long long>(x);
}
inline int __float_as_int(float x) {
  return std::bit_cast<int>(x);
}
inline unsigned __float_as_uint(float x) {
  return std::bit_cast<unsigned>(x);
}
inline float __uint_as_float(unsigned x) {
  return std::bit_cast<float>(x);
}
