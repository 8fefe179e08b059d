// Whole files as bytes: mapped read-only (weights) or copied into memory under a limit (configuration).
// A mapping is immutable and lives as long as its object; any thread. Truncating a mapped file from outside
// is a fault.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "engine/result.hpp"

namespace weir::engine::model {

class mapped_file final {
 public:
  // errc::io names the path and the system's reason. An empty file maps to an empty span.
  static result<std::shared_ptr<const mapped_file>> open(const std::filesystem::path& path);

  mapped_file(const std::byte* data, std::size_t size) : data_(data), size_(size) {}
  ~mapped_file();
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;

  std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }

 private:
  const std::byte* data_;
  std::size_t size_;
};

// The file's text; errc::bad_model when it is longer than `bytes_max`.
result<std::string> read_file(const std::filesystem::path& path, std::size_t bytes_max);

}  // namespace weir::engine::model
