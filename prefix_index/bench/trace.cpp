#include "prefix_index/bench/trace.hpp"

#include <charconv>
#include <fstream>
#include <string>

namespace weir::prefix_index {

namespace {

block_key unit_key(std::uint64_t id, std::uint32_t part) {
  std::int32_t tokens[4] = {static_cast<std::int32_t>(id), static_cast<std::int32_t>(id >> 32),
                            static_cast<std::int32_t>(part), 0};
  return next_key({.low = 1, .high = 2}, tokens);
}

}  // namespace

std::vector<std::vector<block_key>> read_trace(const std::filesystem::path& path,
                                               std::uint32_t units_per_block) {
  std::vector<std::vector<block_key>> chains;
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    constexpr std::string_view k_name = "\"hash_ids\": [";
    const auto start = line.find(k_name);
    if (start == std::string::npos) continue;
    auto& chain = chains.emplace_back();
    const char* at = line.data() + start + k_name.size();
    const char* const end = line.data() + line.size();
    while (at < end) {
      std::uint64_t id = 0;
      const auto parsed = std::from_chars(at, end, id);
      if (parsed.ec != std::errc{}) break;
      for (std::uint32_t part = 0; part < units_per_block; ++part) chain.push_back(unit_key(id, part));
      at = parsed.ptr;
      while (at < end && (*at == ',' || *at == ' ')) ++at;
    }
  }
  return chains;
}

}  // namespace weir::prefix_index
