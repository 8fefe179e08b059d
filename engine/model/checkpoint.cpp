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

struct shard {
  std::shared_ptr<const mapped_file> file;
  tensor_map tensors;
};

result<shard> open_shard(const fs::path& path) {
  auto file = mapped_file::open(path);
  if (!file) return std::unexpected(file.error());
  auto tensors = parse_safetensors((*file)->bytes());
  if (!tensors) return fail(tensors.error().code, path.string() + ": " + tensors.error().detail);
  return shard{std::move(*file), std::move(*tensors)};
}

bool is_plain_name(std::string_view name) {
  constexpr std::string_view k_suffix = ".safetensors";
  return name.size() > k_suffix.size() && name.ends_with(k_suffix) && name.front() != '.' &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

using names_by_shard = std::map<std::string, std::vector<std::string>>;

result<names_by_shard> read_index(const fs::path& path) {
  const auto text = read_file(path, k_index_bytes_max);
  if (!text) return std::unexpected(text.error());
  dom::parser parser;
  dom::object map;
  if (parser.parse(*text).at_key("weight_map").get(map) != simdjson::SUCCESS) {
    return fail(errc::bad_model, path.string() + ": \"weight_map\" is not a JSON object");
  }
  names_by_shard out;
  for (const dom::key_value_pair field : map) {
    std::string_view shard_name;
    if (field.value.get(shard_name) != simdjson::SUCCESS || !is_plain_name(shard_name)) {
      return fail(errc::bad_model, path.string() + ": tensor \"" + std::string(field.key) +
                                       "\" is placed in something that is no plain .safetensors file name");
    }
    out[std::string(shard_name)].emplace_back(field.key);
    if (out.size() > k_shards_max) return fail(errc::bad_model, path.string() + " lists too many shards");
  }
  return out;
}

}  // namespace

result<checkpoint> checkpoint::open(const fs::path& dir) {
  checkpoint out;
  std::error_code ignored;
  if (!fs::exists(dir / k_index_name, ignored)) {
    auto single = open_shard(dir / k_single_name);
    if (!single) return std::unexpected(single.error());
    out.files_.push_back(std::move(single->file));
    out.tensors_ = std::move(single->tensors);
    return out;
  }
  const auto index = read_index(dir / k_index_name);
  if (!index) return std::unexpected(index.error());
  for (const auto& [shard_name, names] : *index) {
    auto part = open_shard(dir / shard_name);
    if (!part) return std::unexpected(part.error());
    for (const std::string& name : names) {
      auto node = part->tensors.extract(name);
      if (node.empty() || out.tensors_.contains(name)) {
        return fail(errc::bad_model, (dir / k_index_name).string() + ": tensor \"" + name +
                                         "\" is listed twice or is not in " + shard_name);
      }
      out.tensors_.insert(std::move(node));
    }
    out.files_.push_back(std::move(part->file));
  }
  return out;
}

const tensor_view* checkpoint::find(const std::string& name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second;
}

}  // namespace weir::engine::model
