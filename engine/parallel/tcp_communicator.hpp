// Ranks of one or several machines over TCP, each with one connection to rank 0, through which all goes:
// right for the messages between steps and for a few ranks without devices, where the network is the bound
// anyway.
//
// Whoever reaches rank 0's port and knows the number of ranks can take a place: the network between ranks has
// to be one's own, as for any launcher of this kind.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/parallel/communicator.hpp"
#include "engine/parallel/tcp_link.hpp"
#include "engine/result.hpp"

namespace weir::engine::parallel {

struct tcp_options {
  int rank = 0;
  int size = 1;
  std::string host = "127.0.0.1";  // of rank 0
  std::uint16_t port = 0;
  std::string build;  // of the program: ranks of another one are refused
  std::chrono::milliseconds join_timeout{60'000};
  std::chrono::milliseconds step_timeout{60'000};
};

// Returns once all ranks have come. errc::bad_request: ranks that do not belong together; errc::io: the
// network, or a rank that did not come. REQUIRES: 0 <= rank < size <= k_ranks_max.
result<std::unique_ptr<communicator>> join_by_tcp(const tcp_options& options);

}  // namespace weir::engine::parallel
