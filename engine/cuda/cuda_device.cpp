#include "engine/cuda/cuda_device.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>

namespace weir::engine::cuda {

namespace {

constexpr std::chrono::milliseconds k_look_interval{20};

void check(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  throw std::runtime_error(std::string("CUDA: ") + call + ": " + cudaGetErrorString(code));
}

class graph final : public runner::recording {
 public:
  graph(cudaGraph_t recorded, cudaStream_t stream) : stream_(stream) {
    check(cudaGraphInstantiate(&ready_, recorded, 0), "cudaGraphInstantiate");
  }
  ~graph() override { cudaGraphExecDestroy(ready_); }
  graph(const graph&) = delete;
  graph& operator=(const graph&) = delete;

  void replay() override { check(cudaGraphLaunch(ready_, stream_), "cudaGraphLaunch"); }

 private:
  cudaGraphExec_t ready_ = nullptr;
  cudaStream_t stream_;
};

}  // namespace

result<std::unique_ptr<runner::device>> cuda_device::open(int index) {
  try {
    return std::make_unique<cuda_device>(index);
  } catch (const std::exception& fault) {
    return fail(errc::io, fault.what());
  }
}

cuda_device::cuda_device(int index) : index_(index) {
  try {
    use();
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    for (staging& s : staging_) {
      check(cudaEventCreateWithFlags(&s.done, cudaEventDisableTiming), "cudaEventCreateWithFlags");
      void* memory = nullptr;
      check(cudaMallocHost(&memory, k_staging_bytes), "cudaMallocHost");
      s.memory = static_cast<std::byte*>(memory);
    }
  } catch (...) {
    free_all();
    throw;
  }
}

cuda_device::~cuda_device() {
  cudaSetDevice(index_);
  cudaStreamSynchronize(stream_);
  free_all();
}

void cuda_device::free_all() noexcept {
  for (staging& s : staging_) {
    if (s.memory != nullptr) cudaFreeHost(s.memory);
    if (s.done != nullptr) cudaEventDestroy(s.done);
  }
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

void cuda_device::use() const {
  check(cudaSetDevice(index_), "cudaSetDevice");
}

std::byte* cuda_device::allocate(std::size_t bytes) {
  use();
  void* memory = nullptr;
  const cudaError_t code = cudaMalloc(&memory, std::max<std::size_t>(bytes, 1));
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // it is not an error of what comes next
    throw std::bad_alloc();
  }
  check(code, "cudaMalloc");
  ++allocations_;
  return static_cast<std::byte*>(memory);
}

// Waits for what is under way, as cudaFree does.
void cuda_device::release(std::byte* memory) noexcept {
  if (memory == nullptr) return;
  cudaSetDevice(index_);
  cudaFree(memory);
}

// The runtime's own waiting cannot be interrupted, so it comes behind this.
template <class Query>
void cuda_device::look_until(Query&& is_done) {
  using clock = std::chrono::steady_clock;
  if (!look_) return;
  const auto begun = clock::now();
  for (auto looked = begun; is_done() == cudaErrorNotReady;) {
    const auto now = clock::now();
    if (now - looked < k_look_interval) continue;
    look_(now - begun);
    looked = now;
  }
}

void cuda_device::upload(void* to, const void* from, std::size_t bytes) {
  use();
  for (std::size_t at = 0; at < bytes; at += k_staging_bytes) {
    const std::size_t here = std::min(k_staging_bytes, bytes - at);
    staging& s = staging_[next_];
    next_ = (next_ + 1) % staging_.size();
    look_until([&s] { return cudaEventQuery(s.done); });
    check(cudaEventSynchronize(s.done), "cudaEventSynchronize");
    std::memcpy(s.memory, static_cast<const std::byte*>(from) + at, here);
    check(cudaMemcpyAsync(static_cast<std::byte*>(to) + at, s.memory, here, cudaMemcpyHostToDevice, stream_),
          "cudaMemcpyAsync to the device");
    check(cudaEventRecord(s.done, stream_), "cudaEventRecord");
  }
}

void cuda_device::download(void* to, const void* from, std::size_t bytes) {
  use();
  for (std::size_t at = 0; at < bytes; at += k_staging_bytes) {
    const std::size_t here = std::min(k_staging_bytes, bytes - at);
    staging& s = staging_[next_];
    check(cudaEventSynchronize(s.done), "cudaEventSynchronize");
    check(cudaMemcpyAsync(s.memory, static_cast<const std::byte*>(from) + at, here, cudaMemcpyDeviceToHost,
                          stream_),
          "cudaMemcpyAsync from the device");
    wait();
    std::memcpy(static_cast<std::byte*>(to) + at, s.memory, here);
  }
}

void cuda_device::copy(void* to, const void* from, std::size_t bytes) {
  use();
  if (bytes > 0) {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), "cudaMemcpyAsync");
  }
}

void cuda_device::wait() {
  use();
  look_until([this] { return cudaStreamQuery(stream_); });
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  check(cudaGetLastError(), "a kernel's launch");
}

void cuda_device::begin_recording() {
  use();
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
}

std::unique_ptr<runner::recording> cuda_device::end_recording() {
  cudaGraph_t recorded = nullptr;
  check(cudaStreamEndCapture(stream_, &recorded), "cudaStreamEndCapture");
  const std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, decltype(&cudaGraphDestroy)> owned(
      recorded, &cudaGraphDestroy);
  return std::make_unique<graph>(recorded, stream_);
}

}  // namespace weir::engine::cuda
