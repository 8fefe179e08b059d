// Configuration file to configuration, or every fault in it with file, line and key.
// Pure but for reading the named file and asking whether files it refers to exist; any thread.
#pragma once

#include <cstdint>
#include <expected>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/config/config.hpp"

namespace weir::gateway::config {

inline constexpr std::size_t k_file_bytes_max = 1 << 20;

using loaded = std::expected<gateway_config, std::vector<fault>>;

// Reads, parses and validates a file.
loaded load(const std::filesystem::path& file);

// The same from text; `file` names it in faults and is where relative paths start. Does not touch the file
// system.
loaded parse(std::string_view yaml, const std::filesystem::path& file);

// ADDRESS:PORT, of IPv6 [ADDRESS]:PORT; that the address is numeric is validate()'s to say.
std::optional<std::pair<std::string, std::uint16_t>> read_address(std::string_view text);

// Rules between fields: names unique and resolvable, listeners allowed, keys well-formed. With `check_files`,
// also that what the configuration refers to exists.
std::vector<fault> validate(const gateway_config& config, const std::filesystem::path& file,
                            bool check_files);

// What is no fault and yet hardly meant, in one sentence; empty: nothing.
std::string warning_of(const gateway_config& config);

// "configs/a.yaml:12:3: models[0].targets: no target named 'x'", one line per fault.
std::string to_text(const std::vector<fault>& faults);

}  // namespace weir::gateway::config
