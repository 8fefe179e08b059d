// A file that holds one secret and nobody but its owner may read. Blocks; any thread.
#pragma once

#include <cstddef>
#include <expected>
#include <filesystem>
#include <string>
#include <string_view>

namespace weir::gateway::auth {

// The content without its final line end, or a sentence that names the file and what to do; never a byte of
// it.
std::expected<std::string, std::string> read_private_file(const std::filesystem::path& file,
                                                          std::size_t bytes_max);

// Makes the file (0600), with the text as its one line. The error is a sentence: it exists already, or cannot
// be written.
std::expected<void, std::string> create_private_file(const std::filesystem::path& file,
                                                     std::string_view text);

}  // namespace weir::gateway::auth
