#include "tests/cuda_emulator/nccl.h"

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "engine/parallel/shm_communicator.hpp"
#include "tests/cuda_emulator/cuda_runtime.h"

namespace parallel = weir::engine::parallel;

namespace cuda_emulator {

struct ring {
  std::unique_ptr<parallel::communicator> ranks;
  bool is_broken = false;
};

namespace {

struct transfer {
  const void* from = nullptr;  // of a send
  void* to = nullptr;          // of a receive
  std::size_t bytes = 0;
  int peer = 0;
};

struct group {
  bool is_open = false;
  std::vector<transfer> transfers;
};

group& the_group() {
  static group out;
  return out;
}

// A process is one rank of one world. Ranks whose part of a group is empty take part in it as well.
ring*& the_ring() {
  static ring* out = nullptr;
  return out;
}

std::vector<std::string>& calls() {
  static std::vector<std::string> out;
  return out;
}

// What was put on the stream; a rank that is gone leaves it stuck.
void on_stream(ring& over, const std::function<void(parallel::communicator&)>& work) {
  if (over.is_broken) return;
  try {
    work(*over.ranks);
  } catch (const parallel::rank_lost&) {
    over.is_broken = true;
    set_stuck(true);
  }
}

// One send to, and one receive from, each peer at most, as engine/cuda/ has it.
void do_transfers(parallel::communicator& ranks, const std::vector<transfer>& all) {
  const auto size = static_cast<std::size_t>(ranks.size());
  std::vector<std::int64_t> sent(size), received(size);
  for (const transfer& t : all) {
    auto& count = (t.from != nullptr ? sent : received)[static_cast<std::size_t>(t.peer)];
    count += static_cast<std::int64_t>(t.bytes);
  }
  std::vector<std::byte> out, in;
  for (std::size_t peer = 0; peer < size; ++peer) {
    for (const transfer& t : all) {
      if (t.from == nullptr || static_cast<std::size_t>(t.peer) != peer) continue;
      const auto* from = static_cast<const std::byte*>(t.from);
      out.insert(out.end(), from, from + t.bytes);
    }
    in.resize(in.size() + static_cast<std::size_t>(received[peer]));
  }
  ranks.all_to_all(out.data(), sent, in.data(), received);
  const std::byte* at = in.data();
  for (std::size_t peer = 0; peer < size; ++peer) {
    for (const transfer& t : all) {
      if (t.to == nullptr || static_cast<std::size_t>(t.peer) != peer) continue;
      std::memcpy(t.to, at, t.bytes);
      at += t.bytes;
    }
  }
}

ncclResult_t add(const transfer& one, ring* over) {
  group& g = the_group();
  if (!g.is_open || over == nullptr) return ncclInvalidUsage;
  g.transfers.push_back(one);
  return ncclSuccess;
}

}  // namespace

const std::vector<std::string>& nccl_calls() noexcept {
  return calls();
}

}  // namespace cuda_emulator

using cuda_emulator::the_group;

const char* ncclGetErrorString(ncclResult_t code) {
  return code == ncclInvalidUsage ? "invalid usage" : "remote process exited or there was a network error";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* out) {
  *out = {};
  static int count = 0;
  std::snprintf(out->internal, sizeof out->internal, "weir-nccl-%d-%d", static_cast<int>(::getpid()),
                count++);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* out, int size, ncclUniqueId id, int rank) {
  parallel::shm_options options;
  options.rank = rank;
  options.size = size;
  options.name = id.internal;
  options.build = "nccl";
  auto joined = parallel::join_by_shared_memory(options);
  if (!joined) return ncclSystemError;
  *out = cuda_emulator::the_ring() = new cuda_emulator::ring{std::move(*joined)};
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t ring) {
  delete ring;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t ring) {
  cuda_emulator::set_stuck(false);
  ring->ranks->abandon();
  delete ring;
  return ncclSuccess;
}

// As with a real one, that a process is gone is not always noticed.
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* out) {
  *out = ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                           ncclComm_t ring, cudaStream_t) {
  if (ring == nullptr || the_group().is_open) return ncclInvalidUsage;
  cuda_emulator::calls().push_back("all_reduce " + std::to_string(type) + " x " + std::to_string(count));
  cuda_emulator::submit([from, to, count, type, ring] {
    cuda_emulator::on_stream(*ring, [&](parallel::communicator& ranks) {
      const std::size_t bytes = count * (type == ncclFloat64 ? sizeof(double) : sizeof(float));
      if (from != to) std::memcpy(to, from, bytes);
      if (type == ncclFloat64) {
        ranks.all_reduce(std::span(static_cast<double*>(to), count));
      } else {
        ranks.all_reduce(std::span(static_cast<float*>(to), count));
      }
    });
  });
  return ncclSuccess;
}

ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t, int peer, ncclComm_t ring,
                      cudaStream_t) {
  return cuda_emulator::add({.from = from, .bytes = count, .peer = peer}, ring);
}

ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t, int peer, ncclComm_t ring, cudaStream_t) {
  return cuda_emulator::add({.to = to, .bytes = count, .peer = peer}, ring);
}

ncclResult_t ncclGroupStart() {
  if (std::exchange(the_group().is_open, true)) return ncclInvalidUsage;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  auto done = std::exchange(the_group(), {});
  if (!done.is_open) return ncclInvalidUsage;
  cuda_emulator::calls().push_back("group");
  cuda_emulator::submit([over = cuda_emulator::the_ring(), all = std::move(done.transfers)] {
    cuda_emulator::on_stream(*over,
                             [&](parallel::communicator& ranks) { cuda_emulator::do_transfers(ranks, all); });
  });
  return ncclSuccess;
}
