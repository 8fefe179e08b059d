// Where a runner's memory lies and its kernels run. Work is done in the order of the calls: a copy sees what
// kernels before it wrote. On a device calls return before that; download() and wait() do not. A fault of a
// device throws std::runtime_error, which says what failed.
// One thread, the runner's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "kernels/parallel.hpp"
#include "kernels/params.hpp"

namespace weir::engine::runner {

// Work noted once, to be done again on the same memory.
class recording {
 public:
  virtual ~recording() = default;
  virtual void replay() = 0;
};

class device {
 public:
  virtual ~device() = default;

  // Aligned to 64, contents unknown. Throws std::bad_alloc.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void release(std::byte* memory) noexcept = 0;

  // From the host, whose memory may be changed once the call returns, and to it.
  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;
  virtual void download(void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  virtual void wait() = 0;

  // Whether what it allocates is the host's memory.
  virtual bool is_host() const noexcept = 0;
  virtual kernels::context context(std::byte* workspace = nullptr, std::size_t bytes = 0) noexcept = 0;
  virtual int thread_count() const noexcept = 0;

  // How often memory was allocated so far.
  virtual std::uint64_t allocations() const noexcept { return 0; }

  // Whether work can be recorded: what is called between begin and end is noted instead of done. Nothing may
  // be allocated, uploaded or downloaded meanwhile.
  virtual bool can_record() const noexcept { return false; }
  virtual void begin_recording() {}
  virtual std::unique_ptr<recording> end_recording() { return nullptr; }
};

class host_device final : public device {
 public:
  explicit host_device(int compute_threads) : pool_(compute_threads) {}

  std::byte* allocate(std::size_t bytes) override;
  void release(std::byte* memory) noexcept override;
  void upload(void* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }
  void copy(void* to, const void* from, std::size_t bytes) override;
  void wait() override {}
  bool is_host() const noexcept override { return true; }
  kernels::context context(std::byte* workspace, std::size_t bytes) noexcept override {
    return {&pool_, workspace, bytes};
  }
  int thread_count() const noexcept override { return pool_.thread_count(); }

 private:
  kernels::thread_pool pool_;
};

// Uninitialised memory of a device that grows and is kept between steps.
template <class T>
class scratch final {
 public:
  explicit scratch(device& where) noexcept : device_(where) {}
  ~scratch() { device_.release(memory_); }
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;

  // What was there is lost when it grows. Throws std::bad_alloc.
  T* need(std::int64_t count) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (bytes > bytes_) {
      device_.release(std::exchange(memory_, nullptr));
      bytes_ = 0;
      memory_ = device_.allocate(bytes);
      bytes_ = bytes;
    }
    return data();
  }
  T* data() const noexcept { return reinterpret_cast<T*>(memory_); }

 private:
  device& device_;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace weir::engine::runner
