// The shared mapping of one machine's ranks: made by rank 0 under /dev/shm, without a name once all have
// come.
//
// Who lives is told by locks: each rank holds one on its own byte of the file, which the system takes back
// however the process ends. So a file that an earlier run left behind, on which nobody holds the first one,
// is never joined, and a rank killed is seen as gone before anybody reaped it. Made and used by one thread of
// each process. A process that was forked off holds its parent's locks until it executes another program.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/parallel/communicator.hpp"
#include "engine/result.hpp"

namespace weir::engine::parallel {

inline constexpr std::size_t k_chunk_bytes = std::size_t{256} << 10;  // of a rank in a round
inline constexpr std::size_t k_build_bytes_max = 63;

struct shm_options {
  int rank = 0;
  int size = 1;
  std::string name;   // of the file: no slash
  std::string build;  // of the program: ranks of another one are refused
  std::chrono::milliseconds join_timeout{60'000};
  std::chrono::milliseconds step_timeout{60'000};
};

struct alignas(128) rank_slot {
  std::atomic<std::uint32_t> posted;   // rounds; what others wait for
  std::atomic<std::uint32_t> waiters;  // for it, who must be woken
  std::atomic<std::uint32_t> joined;
  std::atomic<std::uint32_t> left;  // in order: its end is no loss to who has heard all from it
  std::atomic<std::uint64_t> tags[2];
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free &&
              std::atomic<std::uint64_t>::is_always_lock_free);

class shm_region final {
 public:
  // Rank 0 makes it, the others wait for it to be there.
  static result<std::unique_ptr<shm_region>> open(const shm_options& options);
  ~shm_region();
  shm_region(const shm_region&) = delete;
  shm_region& operator=(const shm_region&) = delete;

  // Takes the name away, so that nobody finds it any more.
  void unlink() noexcept;

  rank_slot& slot(int rank) noexcept;
  // The rank that was lost, plus one, and above it why; 0: none.
  std::atomic<std::uint32_t>& lost() noexcept;
  std::byte* chunk(int rank, std::uint32_t round) noexcept;
  // Whether the rank holds its lock. REQUIRES: not one's own.
  bool lives(int rank) const noexcept;

 private:
  shm_region(std::string path, int size) : path_(std::move(path)), size_(size) {}

  result<void> make(const shm_options& options);
  result<bool> join(const shm_options& options);
  result<void> map();
  result<void> publish();

  std::string path_;
  int size_;
  int fd_ = -1;
  std::byte* data_ = nullptr;
  bool named_ = false;
};

}  // namespace weir::engine::parallel
