#include "engine/model/checkpoint.hpp"

#include <map>
#include <system_error>
#include <utility>

#include <simdjson.h>

namespace weir::engine::model {

namespace dom = simdjson::dom;
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

bool is_plain_name(std::string_view name) {
  constexpr std::string_view k_suffix = ".safetensors";
  return name.size() > k_suffix.size() && name.ends_with(k_suffix) && name.front() != '.' &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

// Fills the index from the text that lists every tensor's shard; gives the shards' names in order.
result<std::vector<std::string>> read_index(const fs::path& path, tensor_index& out) {
  const auto file = mapped_file::open(path);
  if (!file) return std::unexpected(file.error());
  const auto refuse = [&path](const std::string& what) {
    return fail(errc::bad_model, path.string() + what);
  };
  const auto text = (*file)->bytes();
  if (text.size() > k_index_bytes_max)
    return refuse(" is larger than " + std::to_string(k_index_bytes_max) + " bytes");
  dom::parser parser;
  dom::object map;
  const auto* begin = reinterpret_cast<const char*>(text.data());
  if (parser.parse(begin, text.size()).at_key("weight_map").get(map) != simdjson::SUCCESS)
    return refuse(": \"weight_map\" is not a JSON object");
  std::map<std::string, std::uint16_t, std::less<>> shards;
  std::size_t tensors = 0;
  std::size_t name_bytes = 0;
  for (const dom::key_value_pair field : map) {
    std::string_view shard;
    if (field.key.size() > k_name_bytes_max || ++tensors > k_tensors_max)
      return refuse(": too many tensors, or the name of one is too long");
    if (field.value.get(shard) != simdjson::SUCCESS || !is_plain_name(shard)) {
      return refuse(": tensor \"" + std::string(field.key) +
                    "\" is placed in something that is no plain .safetensors file name");
    }
    name_bytes += field.key.size();
    if (!shards.contains(shard)) shards.emplace(shard, std::uint16_t{0});
    if (shards.size() > k_shards_max) return refuse(" lists too many shards");
  }
  std::vector<std::string> names;
  for (auto& [name, number] : shards) {
    number = static_cast<std::uint16_t>(names.size());
    names.push_back(name);
  }
  out.reserve(tensors, name_bytes);
  for (const dom::key_value_pair field : map) {
    const std::string_view shard = field.value.get_string().value_unsafe();
    out.add(field.key, shards.find(shard)->second);
  }
  if (const auto twice = out.seal()) return refuse(": tensor \"" + *twice + "\" is listed twice");
  return names;
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
    out.take(std::move(*single));
    return out;
  }
  const auto shards = read_index(dir / k_index_name, out.index_);
  if (!shards) return std::unexpected(shards.error());
  for (const std::string& name : *shards) {
    auto part = open_shard(dir / name);
    if (!part) return std::unexpected(part.error());
    out.take(std::move(*part));
  }
  if (const auto absent = out.index_.first_unplaced()) {
    return fail(errc::bad_model, (dir / k_index_name).string() + ": tensor \"" + *absent +
                                     "\" is not in the shard that it is placed in");
  }
  return out;
}

void checkpoint::take(open_file part) {
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

}  // namespace weir::engine::model
