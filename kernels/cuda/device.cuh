// What the CUDA kernels share: sums over a warp, tensor-core and copy instructions, number formats, launches.
// Every source of this folder also compiles for the host beside tests/cuda_emulator/, where the instructions
// have bodies in C++; nothing else in the folder may be inline assembly. C++20.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

#include "kernels/cuda/launch.hpp"
#include "kernels/dtype.hpp"

namespace weir::kernels::cuda {

inline constexpr int k_warp = 32;
inline constexpr unsigned k_all_lanes = 0xFFFFFFFFU;
inline constexpr std::size_t k_static_shared_max = 48 << 10;  // more is asked for per kernel
inline constexpr std::size_t k_shared_max = 227 << 10;        // sm_90; sm_80 has 163 KiB

__device__ inline int lane_index() {
  return static_cast<int>(threadIdx.x) % k_warp;
}
__device__ inline int warp_index() {
  return static_cast<int>(threadIdx.x) / k_warp;
}

__device__ inline float warp_sum(float value) {
  for (int step = k_warp / 2; step > 0; step /= 2) value += __shfl_xor_sync(k_all_lanes, value, step);
  return value;
}
__device__ inline float warp_max(float value) {
  for (int step = k_warp / 2; step > 0; step /= 2) {
    value = fmaxf(value, __shfl_xor_sync(k_all_lanes, value, step));
  }
  return value;
}

// Over the lanes of a whole warp (redux.sync).
__device__ inline std::uint32_t warp_max_u32(std::uint32_t value) {
  return __reduce_max_sync(k_all_lanes, value);
}
__device__ inline std::uint32_t warp_min_u32(std::uint32_t value) {
  return __reduce_min_sync(k_all_lanes, value);
}

// The block's dynamic shared memory, aligned to 128.
template <class T>
__device__ inline T* dynamic_shared() {
#if defined(__CUDACC__)
  extern __shared__ __align__(128) unsigned char weir_dynamic_shared[];
  return reinterpret_cast<T*>(weir_dynamic_shared);
#else
  return static_cast<T*>(cuda_emulator::dynamic_shared());
#endif
}

// Two floats as bf16, rounded to nearest even, `low` in the lower half.
__device__ inline std::uint32_t pack_bf16(float low, float high) {
#if defined(__CUDACC__)
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&both);
#else
  return static_cast<std::uint32_t>(float_to_bf16(high)) << 16 | float_to_bf16(low);
#endif
}
__device__ inline std::uint16_t to_bf16(float value) {
  return static_cast<std::uint16_t>(pack_bf16(value, 0.0F));
}
__device__ inline float low_bf16(std::uint32_t pair) {
  return __uint_as_float(pair << 16);
}
__device__ inline float high_bf16(std::uint32_t pair) {
  return __uint_as_float(pair & 0xFFFF0000U);
}
__device__ inline float from_bf16(std::uint16_t bits) {
  return __uint_as_float(static_cast<std::uint32_t>(bits) << 16);
}
__device__ inline float from_f16(std::uint16_t bits) {
#if defined(__CUDACC__)
  return __half2float(__ushort_as_half(bits));
#else
  return f16_to_float(bits);
#endif
}
// The products of two pairs of bf16, rounded to nearest even.
__device__ inline std::uint32_t multiply_bf16(std::uint32_t a, std::uint32_t b) {
#if defined(__CUDACC__)
  const __nv_bfloat162 product =
      __hmul2(*reinterpret_cast<const __nv_bfloat162*>(&a), *reinterpret_cast<const __nv_bfloat162*>(&b));
  return *reinterpret_cast<const std::uint32_t*>(&product);
#else
  return pack_bf16(low_bf16(a) * low_bf16(b), high_bf16(a) * high_bf16(b));
#endif
}
// Element `index` of weights. REQUIRES: not grouped.
__device__ inline float load_element(const void* data, dtype type, std::size_t index) {
  if (type == dtype::f32) return static_cast<const float*>(data)[index];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(data)[index];
  return type == dtype::bf16 ? from_bf16(bits) : from_f16(bits);
}

// c += a b on a 16x8 tile of depth 16, bf16 into float32, over the lanes of a warp (PTX mma.m16n8k16: lane l
// holds of a the rows l / 4 and l / 4 + 8 at columns 2 (l % 4) + {0, 1} and + 8, in the order (row, low k),
// (row + 8, low k), (row, high k), (row + 8, high k); of b the column l / 4 at the same depths, low k, high
// k; of c the rows l / 4, l / 4 + 8 at columns 2 (l % 4) + {0, 1}).
__device__ inline void mma_bf16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
#if defined(__CUDACC__)
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  cuda_emulator::mma_bf16(c, a, b);
#endif
}

// Four 8x8 tiles of 16-bit values from shared memory: lane l names a row of 16 bytes of tile l / 8
// (ldmatrix). Lane l gets of each tile row l / 4, columns 2 (l % 4) + {0, 1}; transposed: column l / 4 of it,
// those rows.
__device__ inline void load_tiles(std::uint32_t (&out)[4], const void* shared_row) {
#if defined(__CUDACC__)
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared_row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(at)
               : "memory");
#else
  cuda_emulator::load_tiles(out, shared_row, false);
#endif
}
__device__ inline void load_tiles_transposed(std::uint32_t (&out)[4], const void* shared_row) {
#if defined(__CUDACC__)
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared_row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(at)
               : "memory");
#else
  cuda_emulator::load_tiles(out, shared_row, true);
#endif
}

// Sixteen bytes from global to shared memory without waiting; zeros where not `there`. Both aligned to 16.
__device__ inline void copy_async16(void* shared, const void* global, bool there = true) {
#if defined(__CUDACC__)
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(at), "l"(global), "r"(there ? 16 : 0)
               : "memory");
#else
  cuda_emulator::copy_async16(shared, global, there);
#endif
}
// Ends a group of the thread's copies; waits until at most `Left` groups are under way. A barrier makes them
// visible to other threads.
__device__ inline void commit_copies() {
#if defined(__CUDACC__)
  asm volatile("cp.async.commit_group;\n" ::: "memory");
#else
  cuda_emulator::commit_copies();
#endif
}
template <int Left>
__device__ inline void wait_copies() {
#if defined(__CUDACC__)
  asm volatile("cp.async.wait_group %0;\n" ::"n"(Left) : "memory");
#else
  cuda_emulator::wait_copies(Left);
#endif
}

// Waits for `count` threads, whole warps, at barrier `id` of the block: 1 to 15, as __syncthreads has 0.
__device__ inline void named_barrier(int id, int count) {
#if defined(__CUDACC__)
  asm volatile("bar.sync %0, %1;\n" ::"r"(id), "r"(count) : "memory");
#else
  cuda_emulator::named_barrier(id, count);
#endif
}

// Streaming loads and stores of 16 bytes, for what is touched once.
__device__ inline uint4 load_once(const void* from) {
#if defined(__CUDACC__)
  uint4 out;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(out.x), "=r"(out.y), "=r"(out.z), "=r"(out.w)
               : "l"(from));
  return out;
#else
  return *static_cast<const uint4*>(from);
#endif
}

// Puts a kernel behind what is on the stream already. An error stays with the runtime until the host asks for
// it (cudaGetLastError). A grid without blocks is no work.
template <class... Params, class... Args>
void launch(void (*kernel)(Params...), dim3 grid, dim3 block, std::size_t shared_bytes, void* stream,
            Args... args) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
#if defined(__CUDACC__)
  if (shared_bytes > k_static_shared_max) {
    cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(shared_bytes));
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...);
#else
  static_cast<void>(stream);
  cuda_emulator::run(grid, block, shared_bytes, [kernel, args...] { kernel(static_cast<Params>(args)...); });
#endif
}

template <class... Params, class... Args>
void launch(void (*kernel)(Params...), const launch_shape& shape, void* stream, Args... args) {
  const dim3 grid(static_cast<unsigned>(shape.grid_x), static_cast<unsigned>(shape.grid_y),
                  static_cast<unsigned>(shape.grid_z));
  launch(kernel, grid, dim3(static_cast<unsigned>(shape.threads)), shape.shared_bytes, stream, args...);
}

}  // namespace weir::kernels::cuda
