// A model directory's tensors by name, whether in one file or in the shards that an index lists. Files stay
// mapped as long as the checkpoint lives; views point into them. Immutable after open; any thread.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/mapped_file.hpp"
#include "engine/model/safetensors.hpp"
#include "engine/result.hpp"

namespace weir::engine::model {

inline constexpr std::size_t k_shards_max = 4096;
inline constexpr std::size_t k_index_bytes_max = std::size_t{256} << 20;

class checkpoint final {
 public:
  // Reads DIR/model.safetensors.index.json and its shards, or DIR/model.safetensors. Shard names are plain
  // file names: one with a path separator is errc::bad_model. So is a tensor that the index places in a shard
  // without it.
  static result<checkpoint> open(const std::filesystem::path& dir);

  // Null when absent.
  const tensor_view* find(const std::string& name) const;

  std::size_t tensor_count() const noexcept { return tensors_.size(); }

 private:
  std::vector<std::shared_ptr<const mapped_file>> files_;
  tensor_map tensors_;
};

}  // namespace weir::engine::model
