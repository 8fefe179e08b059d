#include "engine/cuda/nccl_communicator.hpp"

#include <chrono>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nccl.h>

#include "engine/cuda/cuda_device.hpp"

namespace weir::engine::cuda {

namespace {

constexpr std::chrono::seconds k_step_timeout{60};

class nccl_communicator final : public parallel::communicator {
 public:
  nccl_communicator(parallel::communicator& host, cuda_device& where, ncclComm_t ring)
      : host_(host), device_(where), stream_(where.stream()), ring_(ring) {
    device_.watch([this](auto waited) { look(waited); });
  }
  ~nccl_communicator() override {
    device_.watch(nullptr);
    if (ring_ != nullptr) ncclCommDestroy(ring_);
  }
  nccl_communicator(const nccl_communicator&) = delete;
  nccl_communicator& operator=(const nccl_communicator&) = delete;

  int rank() const noexcept override { return host_.rank(); }
  int size() const noexcept override { return host_.size(); }

  void all_reduce(std::span<float> values) override { reduce(values.data(), values.size(), ncclFloat32); }
  void all_reduce(std::span<double> values) override { reduce(values.data(), values.size(), ncclFloat64); }
  void all_gather(const void* mine, void* all, std::span<const std::int64_t> bytes) override;
  void all_to_all(const void* out, std::span<const std::int64_t> out_bytes, void* in,
                  std::span<const std::int64_t> in_bytes) override;

  void broadcast(std::vector<std::byte>& message) override { host_.broadcast(message); }
  void exchange(std::span<const std::byte> mine, std::span<std::byte> all, parallel::patience how) override {
    host_.exchange(mine, all, how);
  }
  void check() override { host_.check(); }
  void abandon() noexcept override {
    host_.abandon();
    abort();
  }

 private:
  void reduce(void* values, std::size_t count, ncclDataType_t type) {
    need(ring_ == nullptr ? ncclInvalidUsage
                          : ncclAllReduce(values, values, count, type, ncclSum, ring_, stream_));
  }
  void begin_group() { need(ring_ == nullptr ? ncclInvalidUsage : ncclGroupStart()); }
  void need(ncclResult_t code) {
    if (code == ncclSuccess) return;
    host_.check();
    host_.abandon();
    abort();
    throw parallel::rank_lost(rank(), std::string("NCCL: ") + ncclGetErrorString(code));
  }
  void look(std::chrono::steady_clock::duration waited);
  void abort() noexcept {
    if (ring_ != nullptr) ncclCommAbort(std::exchange(ring_, nullptr));
  }

  parallel::communicator& host_;
  cuda_device& device_;
  cudaStream_t stream_;
  ncclComm_t ring_;  // null: aborted
};

// Called while the stream is waited for.
void nccl_communicator::look(std::chrono::steady_clock::duration waited) {
  if (ring_ == nullptr) return;
  try {
    host_.check();
  } catch (...) {
    abort();
    throw;
  }
  ncclResult_t state = ncclSuccess;
  need(ncclCommGetAsyncError(ring_, &state));
  need(state);
  if (waited < k_step_timeout) return;
  host_.abandon();
  abort();
  throw parallel::rank_lost(rank(), "a step was not done in time");
}

void nccl_communicator::all_gather(const void* mine, void* all, std::span<const std::int64_t> bytes) {
  begin_group();
  const auto me = static_cast<std::size_t>(rank());
  auto* at = static_cast<std::byte*>(all);
  for (std::size_t peer = 0; peer < bytes.size(); ++peer) {
    const auto count = static_cast<std::size_t>(bytes[peer]);
    const int to = static_cast<int>(peer);
    if (bytes[me] > 0)
      need(ncclSend(mine, static_cast<std::size_t>(bytes[me]), ncclUint8, to, ring_, stream_));
    if (count > 0) need(ncclRecv(at, count, ncclUint8, to, ring_, stream_));
    at += count;
  }
  need(ncclGroupEnd());
}

void nccl_communicator::all_to_all(const void* out, std::span<const std::int64_t> out_bytes, void* in,
                                   std::span<const std::int64_t> in_bytes) {
  begin_group();
  const auto* from = static_cast<const std::byte*>(out);
  auto* to = static_cast<std::byte*>(in);
  for (std::size_t peer = 0; peer < out_bytes.size(); ++peer) {
    const auto sent = static_cast<std::size_t>(out_bytes[peer]);
    const auto received = static_cast<std::size_t>(in_bytes[peer]);
    const int other = static_cast<int>(peer);
    if (sent > 0) need(ncclSend(from, sent, ncclUint8, other, ring_, stream_));
    if (received > 0) need(ncclRecv(to, received, ncclUint8, other, ring_, stream_));
    from += sent;
    to += received;
  }
  need(ncclGroupEnd());
}

}  // namespace

result<std::unique_ptr<parallel::communicator>> join_by_nccl(parallel::communicator& host,
                                                             runner::device& where) {
  auto& device = static_cast<cuda_device&>(where);
  ncclUniqueId id{};
  const auto refuse = [&host](ncclResult_t code) {
    host.abandon();
    return fail(errc::io, std::string("NCCL: ") + ncclGetErrorString(code));
  };
  if (host.rank() == 0) {
    if (const auto code = ncclGetUniqueId(&id); code != ncclSuccess) return refuse(code);
  }
  std::vector<std::byte> message(sizeof id);
  std::memcpy(message.data(), &id, sizeof id);
  host.broadcast(message);
  if (message.size() != sizeof id) return fail(errc::io, "NCCL: rank 0 is another build of it");
  std::memcpy(&id, message.data(), sizeof id);
  device.use();
  ncclComm_t ring = nullptr;
  if (const auto code = ncclCommInitRank(&ring, host.size(), id, host.rank()); code != ncclSuccess) {
    return refuse(code);
  }
  return std::make_unique<nccl_communicator>(host, device, ring);
}

}  // namespace weir::engine::cuda
