// The measurements of weir-index-bench; each prints its rows. Rates are by processor time of the one thread
// that does the work, latencies by the wall clock.
#pragma once

#include <cstddef>
#include <filesystem>

namespace weir::prefix_index {

// Resident bytes per key and per (key, replica), by events and simulated.
void measure_memory(std::size_t keys);

// Stored + returned blocks per second on a replayed trace, with `keys` other keys in the index.
void measure_trace(const std::filesystem::path& trace, std::size_t keys);

// Look-ups of a prompt of 16,384 units against 64 replicas.
void measure_long_prompt(std::size_t keys);

// Writing `keys` keys behind, and write amplification; leaves the database in `folder`, which is emptied
// first.
void measure_store(const std::filesystem::path& folder, std::size_t keys);

// A warm restart from that folder.
void measure_restart(const std::filesystem::path& folder);

}  // namespace weir::prefix_index
