#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "tests/cuda_emulator/cuda_runtime.h"
#include "tests/cuda_emulator/cuda_runtime_api.h"

namespace cuda_emulator {

struct graph {
  std::vector<std::function<void()>> work;
};

struct stream {
  std::unique_ptr<graph> capturing;
};

namespace {

constexpr std::size_t k_memory_bytes = std::size_t{1} << 32;

struct runtime {
  std::size_t memory = k_memory_bytes;
  std::size_t used = 0;
  std::unordered_map<void*, std::size_t> given;
  stream* capturing = nullptr;  // at most one at a time
  cudaError_t pending = cudaSuccess;
  std::size_t graph_launches = 0;
  bool stuck = false;
};

runtime& the_runtime() {
  static runtime out;
  return out;
}

}  // namespace

void set_memory(std::size_t bytes) noexcept {
  the_runtime().memory = bytes;
}

void fail_next(cudaError_t code) noexcept {
  the_runtime().pending = code;
}

void set_stuck(bool stuck) noexcept {
  the_runtime().stuck = stuck;
}

std::size_t graph_launches() noexcept {
  return the_runtime().graph_launches;
}

void submit(std::function<void()> work) {
  runtime& r = the_runtime();
  if (r.capturing != nullptr) {
    r.capturing->capturing->work.push_back(std::move(work));
  } else {
    work();
  }
}

}  // namespace cuda_emulator

using cuda_emulator::the_runtime;

const char* cudaGetErrorString(cudaError_t code) {
  switch (code) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    default:
      return "invalid argument";
  }
}

cudaError_t cudaGetLastError() {
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int index) {
  return index == 0 ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int index) {
  *out = {};
  std::strcpy(out->name, "emulated device");
  out->totalGlobalMem = the_runtime().memory;
  out->major = 9;
  out->multiProcessorCount = 132;
  return cudaSetDevice(index);
}

cudaError_t cudaMemGetInfo(std::size_t* unused, std::size_t* all) {
  const auto& r = the_runtime();
  *all = r.memory;
  *unused = r.memory - std::min(r.used, r.memory);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** out, std::size_t bytes) {
  constexpr std::size_t k_align = 256;
  auto& r = the_runtime();
  if (r.capturing != nullptr) return cudaErrorStreamCaptureUnsupported;
  const std::size_t whole = (bytes + k_align - 1) / k_align * k_align;
  if (whole > r.memory - std::min(r.used, r.memory)) return cudaErrorMemoryAllocation;
  *out = std::aligned_alloc(k_align, whole);
  if (*out == nullptr) return cudaErrorMemoryAllocation;
  r.used += whole;
  r.given[*out] = whole;
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  auto& r = the_runtime();
  const auto it = r.given.find(memory);
  if (it == r.given.end()) return cudaErrorInvalidValue;
  r.used -= it->second;
  r.given.erase(it);
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** out, std::size_t bytes) {
  *out = std::malloc(bytes);
  return *out == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaFreeHost(void* memory) {
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t) {
  if (the_runtime().capturing != nullptr && kind != cudaMemcpyDeviceToDevice) {
    return cudaErrorStreamCaptureUnsupported;
  }
  cuda_emulator::submit([to, from, bytes] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned) {
  *out = new cuda_emulator::stream;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return std::exchange(the_runtime().pending, cudaSuccess);
}

cudaError_t cudaStreamQuery(cudaStream_t) {
  return the_runtime().stuck ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned) {
  *out = new cuda_emulator::event;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) {
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t) {
  return the_runtime().capturing != nullptr ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t) {
  return cudaStreamQuery(nullptr);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  auto& r = the_runtime();
  if (r.capturing != nullptr) return cudaErrorStreamCaptureUnsupported;
  stream->capturing = std::make_unique<cuda_emulator::graph>();
  r.capturing = stream;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* out) {
  auto& r = the_runtime();
  if (r.capturing != stream) return cudaErrorInvalidValue;
  r.capturing = nullptr;
  *out = stream->capturing.release();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long) {
  *out = new cuda_emulator::graph(*graph);
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t) {
  ++the_runtime().graph_launches;
  for (const auto& work : graph->work) work();
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
