// Requests to replay: when each came, how long it is and which blocks of tokens it is made of. Block ids are
// prefix-chained: equal ids mean equal prompts up to and with that block.
#pragma once

#include <cstdint>
#include <expected>
#include <filesystem>
#include <string>
#include <vector>

namespace weir::loadtest::replay {

inline constexpr std::int64_t k_trace_block_tokens = 512;
inline constexpr std::size_t k_trace_bytes_max = 1ULL << 30;
inline constexpr std::int64_t k_trace_tokens_max = 1LL << 24;  // of one request

struct trace_request {
  double at_s = 0;
  std::int64_t input_tokens = 0;
  std::int64_t output_tokens = 0;
  std::vector<std::uint64_t> blocks;
};

// Mooncake's format (kvcache-ai/Mooncake, FAST25-release): one JSON object a line with timestamp (ms),
// input_length, output_length and hash_ids of 512-token blocks. The error names the line.
std::expected<std::vector<trace_request>, std::string> read_trace(const std::filesystem::path& file);

}  // namespace weir::loadtest::replay
