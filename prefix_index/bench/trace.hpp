// A request trace in the public Mooncake format, as chains of keys: one JSON object per line whose hash_ids
// name 512-token blocks and are prefix-chained (an equal id means an equal prompt up to there). For the bench
// only.
#pragma once

#include <filesystem>
#include <vector>

#include "prefix_index/block_key.hpp"

namespace weir::prefix_index {

// One chain per line; every id becomes `units_per_block` keys. Lines without hash_ids are skipped; an
// unreadable file gives no chains.
std::vector<std::vector<block_key>> read_trace(const std::filesystem::path& path,
                                               std::uint32_t units_per_block);

}  // namespace weir::prefix_index
