// What the ranks of one model say to each other. Ranks are processes that each hold a part of the weights and
// run the same steps; every rank calls the same operations in the same order with sizes that fit together.
//
// Two kinds. Inside a step: on memory where the kernels run, in the order of the kernels' calls (a device's
// implementation is given its stream when it is made), sizes known to the host beforehand, so that nothing is
// read back to find them. Between steps: on the host's memory.
//
// Invariants: all ranks get the same bits from a sum, which is taken in rank order. A rank that ended, or
// that is not there by the deadline, makes the operation throw rank_lost; from then on every operation of
// every rank throws at once. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace weir::engine::parallel {

inline constexpr int k_ranks_max = 64;
// Of a broadcast: a step's tokens and the pages of its sequences, several times over.
inline constexpr std::size_t k_message_bytes_max = std::size_t{64} << 20;
// Of what one rank exchanges.
inline constexpr std::size_t k_exchange_bytes_max = std::size_t{64} << 10;

class rank_lost final : public std::runtime_error {
 public:
  rank_lost(int rank, const std::string& why)
      : std::runtime_error("lost rank " + std::to_string(rank) + " (" + why + ")"), rank_(rank) {}
  int rank() const noexcept { return rank_; }

 private:
  int rank_;
};

// Why a rank is lost, whatever the ranks speak through.
inline constexpr const char* k_was_late = "it was not there in time";
inline constexpr const char* k_gave_up = "it gave up";
inline constexpr const char* k_went_astray = "it was at another operation than the others";

// Of a broadcast, before anybody hears of it: throws std::length_error beyond k_message_bytes_max.
inline void check_message(std::size_t bytes) {
  if (bytes <= k_message_bytes_max) return;
  throw std::length_error("a message of " + std::to_string(bytes) + " bytes to the other ranks");
}

inline std::int64_t sum_of(std::span<const std::int64_t> parts) {
  return std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
}

enum class patience : std::uint8_t {
  step,  // the others compute the same step: there is a deadline
  idle,  // they may wait for work or load weights: only that they live counts
};

class communicator {
 public:
  virtual ~communicator() = default;

  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;

  // Inside a step.
  virtual void all_reduce(std::span<float> values) = 0;
  virtual void all_reduce(std::span<double> values) = 0;
  // All ranks' parts in rank order. bytes: [size], the same on every rank.
  virtual void all_gather(const void* mine, void* all, std::span<const std::int64_t> bytes) = 0;
  // The parts for, and from, each rank in rank order; none may be another rank's to count.
  virtual void all_to_all(const void* out, std::span<const std::int64_t> out_bytes, void* in,
                          std::span<const std::int64_t> in_bytes) = 0;

  // Between steps. Rank 0's message reaches all, who need not know its size; they wait for it idly. Throws
  // std::length_error, before the others hear of it, beyond k_message_bytes_max.
  virtual void broadcast(std::vector<std::byte>& message) = 0;
  // Equally many bytes of each rank, in rank order. REQUIRES: all.size() == size * mine.size().
  virtual void exchange(std::span<const std::byte> mine, std::span<std::byte> all, patience how) = 0;

  // Throws rank_lost where a rank is known to be gone; does not wait.
  virtual void check() = 0;
  // This rank goes no further: every other one loses it.
  virtual void abandon() noexcept = 0;
};

}  // namespace weir::engine::parallel
