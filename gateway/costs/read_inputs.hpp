// The inputs file of `weir costs` to inputs, or every fault in it with file, line and key: unknown keys,
// values out of range, and fields that contradict one another. An input that is left out is unknown, which is
// no fault. Pure but for reading the named file; any thread.
#pragma once

#include <expected>
#include <filesystem>
#include <string_view>
#include <vector>

#include "gateway/config/config.hpp"
#include "policy/economics/inputs.hpp"

namespace weir::gateway::costs {

inline constexpr std::size_t k_inputs_bytes_max = 64 << 10;
inline constexpr std::size_t k_kinds_max = 64;
inline constexpr std::size_t k_tiers_max = 16;
inline constexpr std::size_t k_contexts_max = 16;
inline constexpr std::size_t k_licence_lines_max = 32;

using read_result = std::expected<policy::economics::inputs, std::vector<config::fault>>;

// `file` names the text in faults.
read_result parse_inputs(std::string_view yaml, const std::filesystem::path& file);

read_result load_inputs(const std::filesystem::path& file);

}  // namespace weir::gateway::costs
