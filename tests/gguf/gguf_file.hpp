// Writes a file in GGUF version 3, the format of llama.cpp: keys with typed values, then tensors, each with
// its dimensions from the fastest to the slowest. Values are little-endian, as is every machine this builds
// for. Tensors are made while they are written, so that a file may be larger than memory. One thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "engine/result.hpp"

namespace weir::tests::gguf {

// As the format numbers them.
enum class tensor_type : std::uint32_t { f32 = 0, f16 = 1, bf16 = 30 };

struct tensor {
  std::string name;
  std::vector<std::uint64_t> dims;  // fastest first
  tensor_type type = tensor_type::f32;
  std::function<void(std::ostream&)> write;  // all of its bytes

  std::uint64_t size_bytes() const;
};

class file final {
 public:
  void set(std::string_view key, std::uint32_t value);
  void set(std::string_view key, float value);
  void set(std::string_view key, std::string_view value);
  void set(std::string_view key, const std::vector<std::int32_t>& values);
  void set(std::string_view key, const std::vector<std::string>& values);

  void add(tensor t) { tensors_.push_back(std::move(t)); }

  // errc::io where the disk takes no more; errc::bad_model names a tensor that wrote another size than its
  // dimensions say. Returns the bytes of the file.
  engine::result<std::uint64_t> write(const std::filesystem::path& path) const;

 private:
  std::string keys_;  // encoded
  std::uint64_t key_count_ = 0;
  std::vector<tensor> tensors_;
};

}  // namespace weir::tests::gguf
