#include "engine/model/checkpoint.hpp"

#include <system_error>
#include <utility>

#include "engine/model/weight_map.hpp"

namespace weir::engine::model {

namespace fs = std::filesystem;

namespace {

constexpr const char* k_index_name = "model.safetensors.index.json";
constexpr const char* k_single_name = "model.safetensors";

result<open_file> open_shard(const fs::path& path) {
  auto file = mapped_file::open(path);
  if (!file) return std::unexpected(file.error());
  auto tensors = parse_safetensors((*file)->bytes());
  if (!tensors) return fail(tensors.error().code, path.string() + ": " + tensors.error().detail);
  return open_file{std::move(*file), std::move(*tensors)};
}

// Fills the index; gives the shards' names.
result<std::vector<std::string>> read_index(const fs::path& path, tensor_index& out) {
  const auto file = mapped_file::open(path);
  if (!file) return std::unexpected(file.error());
  auto shards = parse_weight_map((*file)->bytes(), out);
  if (!shards) return fail(shards.error().code, path.string() + ": " + shards.error().detail);
  return shards;
}

}  // namespace

result<checkpoint> checkpoint::open(const fs::path& dir) {
  checkpoint out;
  std::error_code ignored;
  if (!fs::exists(dir / k_index_name, ignored)) {
    auto single = open_shard(dir / k_single_name);
    if (!single) return std::unexpected(single.error());
    std::size_t name_bytes = 0;
    for (const auto& [name, view] : single->tensors) name_bytes += name.size();
    out.index_.reserve(single->tensors.size(), name_bytes);
    for (const auto& [name, view] : single->tensors) out.index_.add(name, 0);
    out.index_.seal();
    out.add(std::move(*single));
    return out;
  }
  const auto shards = read_index(dir / k_index_name, out.index_);
  if (!shards) return std::unexpected(shards.error());
  for (const std::string& name : *shards) {
    auto part = open_shard(dir / name);
    if (!part) return std::unexpected(part.error());
    out.add(std::move(*part));
  }
  if (const auto absent = out.index_.first_unplaced()) {
    return fail(errc::bad_model, (dir / k_index_name).string() + ": tensor \"" + *absent +
                                     "\" is not in the shard that it is placed in");
  }
  return out;
}

void checkpoint::add(open_file part) {
  const auto number = static_cast<std::uint16_t>(files_.size());
  const std::byte* begin = part.file->bytes().data();
  for (const auto& [name, view] : part.tensors) {
    // An empty tensor has no place in the file.
    const std::uint64_t offset = view.data.empty() ? 0 : static_cast<std::uint64_t>(view.data.data() - begin);
    index_.put(name, number, view, offset);
  }
  files_.push_back(std::move(part.file));
}

std::optional<tensor_view> checkpoint::find(std::string_view name) const {
  const auto place = index_.find(name);
  if (!place) return std::nullopt;
  return tensor_view{place->dtype, place->shape,
                     files_[place->shard]->bytes().subspan(place->offset, place->bytes)};
}

std::optional<tensor_view> checkpoint::take(std::string_view name, const std::vector<std::int64_t>&,
                                            storage) {
  return find(name);
}

}  // namespace weir::engine::model
