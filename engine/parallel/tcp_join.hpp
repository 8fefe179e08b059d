// How ranks find rank 0 and are let in: each says which it is, of how many, of which build; rank 0 answers
// once all are there, or says why not. Blocks; one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/parallel/tcp_communicator.hpp"
#include "engine/parallel/tcp_link.hpp"
#include "engine/result.hpp"

namespace weir::engine::parallel {

inline constexpr std::int64_t k_to_all_bytes_max = std::int64_t{1} << 32;  // from one rank to another

// Of rank 0 the connections to 1, 2, ...; of the others the one to 0.
result<std::vector<tcp_link>> join_links(const tcp_options& options);

}  // namespace weir::engine::parallel
