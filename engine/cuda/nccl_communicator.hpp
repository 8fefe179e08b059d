// Ranks that each have an NVIDIA device: what is inside a step goes from device to device by NCCL, in the
// order of the device's stream; what is between steps goes the way the ranks came together by.
//
// NCCL's kernels wait for the other ranks without end. Whoever waits for the device therefore looks at the
// others meanwhile (cuda_device::watch): a lost rank, or a step beyond its deadline, aborts NCCL's part,
// frees the stream and throws parallel::rank_lost.
#pragma once

#include <memory>

#include "engine/parallel/communicator.hpp"
#include "engine/result.hpp"
#include "engine/runner/device.hpp"

namespace weir::engine::cuda {

// Every rank calls it. `host` and `where`, a cuda_device, outlive the communicator. errc::io: NCCL says no;
// throws parallel::rank_lost.
result<std::unique_ptr<parallel::communicator>> join_by_nccl(parallel::communicator& host,
                                                             runner::device& where);

}  // namespace weir::engine::cuda
