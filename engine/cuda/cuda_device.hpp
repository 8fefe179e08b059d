// An NVIDIA device behind the runner's interface: one stream for all work, pinned memory that uploads go
// through, CUDA graphs as recordings. Every fault of the runtime throws std::runtime_error with the call that
// saw it: faults of kernels show at the next call. One thread at a time, not always the same.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include <cuda_runtime_api.h>

#include "engine/result.hpp"
#include "engine/runner/device.hpp"

namespace weir::engine::cuda {

inline constexpr std::size_t k_staging_bytes = std::size_t{8} << 20;  // a copy's setup vanishes in it

class cuda_device final : public runner::device {
 public:
  static result<std::unique_ptr<runner::device>> open(int index);
  explicit cuda_device(int index);  // throws
  ~cuda_device() override;
  cuda_device(const cuda_device&) = delete;
  cuda_device& operator=(const cuda_device&) = delete;

  std::byte* allocate(std::size_t bytes) override;
  void release(std::byte* memory) noexcept override;
  void upload(void* to, const void* from, std::size_t bytes) override;
  void download(void* to, const void* from, std::size_t bytes) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void wait() override;
  bool is_host() const noexcept override { return false; }
  kernels::context context(std::byte* workspace, std::size_t bytes) noexcept override {
    return {nullptr, workspace, bytes, stream_};
  }
  int thread_count() const noexcept override { return 1; }
  std::uint64_t allocations() const noexcept override { return allocations_; }
  bool can_record() const noexcept override { return true; }
  void begin_recording() override;
  std::unique_ptr<runner::recording> end_recording() override;

  cudaStream_t stream() const noexcept { return stream_; }
  // Makes it the calling thread's current device: the runtime keeps that by thread.
  void use() const;
  // Called now and then, with how long it is by then, while work is waited for that may never end; what it
  // throws ends the wait. May be empty.
  using watcher = std::function<void(std::chrono::steady_clock::duration waited)>;
  void watch(watcher look) { look_ = std::move(look); }

 private:
  // Pinned, reused in turn; free once its event has passed.
  struct staging {
    std::byte* memory = nullptr;
    cudaEvent_t done = nullptr;
  };

  template <class Query>
  void look_until(Query&& is_done);
  void free_all() noexcept;

  int index_;
  cudaStream_t stream_ = nullptr;
  std::array<staging, 2> staging_{};
  std::size_t next_ = 0;
  std::uint64_t allocations_ = 0;
  watcher look_;
};

}  // namespace weir::engine::cuda
