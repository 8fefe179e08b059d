// A model directory's tensors by name, whether in one file or in the shards that an index lists. Files stay
// mapped as long as the checkpoint lives; views point into them. Immutable after open; any thread.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/mapped_file.hpp"
#include "engine/model/safetensors.hpp"
#include "engine/model/tensor_index.hpp"
#include "engine/model/tensor_source.hpp"
#include "engine/result.hpp"

namespace weir::engine::model {

// A weight file, mapped, with what it holds.
struct open_file {
  std::shared_ptr<const mapped_file> file;
  tensor_map tensors;
};

class checkpoint final : public tensor_source {
 public:
  // Reads DIR/model.safetensors.index.json and its shards, or DIR/model.safetensors. Shard names are plain
  // file names: one with a path separator is errc::bad_model. So is a tensor that the index places in a shard
  // without it.
  static result<checkpoint> open(const std::filesystem::path& dir);

  std::optional<tensor_view> find(std::string_view name) const override;
  std::optional<tensor_view> take(std::string_view name, const std::vector<std::int64_t>& shape,
                                  storage how) override;

  const tensor_index& index() const noexcept { return index_; }

 private:
  // The next shard: its tensors that the index places there.
  void add(open_file part);

  std::vector<std::shared_ptr<const mapped_file>> files_;  // by shard
  tensor_index index_;
};

}  // namespace weir::engine::model
