// The part of NCCL that engine/cuda/ uses, between processes of one machine over shared memory. Every call is
// noted, so that a test can see that all ranks make the same ones in the same order. Where a rank is gone the
// stream is stuck, as a real one would be, until the communicator is aborted.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/cuda_emulator/cuda_runtime_api.h"

enum ncclResult_t { ncclSuccess = 0, ncclSystemError = 2, ncclInvalidUsage = 5, ncclRemoteError = 6 };
enum ncclDataType_t { ncclUint8 = 1, ncclFloat32 = 7, ncclFloat64 = 8 };
enum ncclRedOp_t { ncclSum = 0 };

struct ncclUniqueId {
  char internal[128];
};

namespace cuda_emulator {
struct ring;
// Of this process, in order, each with its size: "all_reduce 7 x 128", "group of 3 sends, 3 receives".
const std::vector<std::string>& nccl_calls() noexcept;
}  // namespace cuda_emulator

using ncclComm_t = cuda_emulator::ring*;

const char* ncclGetErrorString(ncclResult_t code);
ncclResult_t ncclGetUniqueId(ncclUniqueId* out);
ncclResult_t ncclCommInitRank(ncclComm_t* out, int size, ncclUniqueId id, int rank);
ncclResult_t ncclCommDestroy(ncclComm_t ring);
ncclResult_t ncclCommAbort(ncclComm_t ring);
ncclResult_t ncclCommGetAsyncError(ncclComm_t ring, ncclResult_t* out);
ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t sum, ncclComm_t ring, cudaStream_t stream);
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t ring,
                      cudaStream_t stream);
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t ring,
                      cudaStream_t stream);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
