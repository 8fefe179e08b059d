#include "engine/model/weight_map.hpp"

#include <map>
#include <string_view>

#include <simdjson.h>

namespace weir::engine::model {

namespace dom = simdjson::dom;

namespace {

std::unexpected<error> refuse(std::string what) {
  return fail(errc::bad_model, std::move(what));
}

bool is_plain_name(std::string_view name) {
  constexpr std::string_view k_suffix = ".safetensors";
  return name.size() > k_suffix.size() && name.ends_with(k_suffix) && name.front() != '.' &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

}  // namespace

result<std::vector<std::string>> parse_weight_map(std::span<const std::byte> text, tensor_index& out) {
  if (text.size() > k_index_bytes_max)
    return refuse("it is larger than " + std::to_string(k_index_bytes_max) + " bytes");
  dom::parser parser;
  dom::object map;
  const auto* begin = reinterpret_cast<const char*>(text.data());
  dom::element root;
  if (const auto code = parser.parse(begin, text.size()).get(root); code != simdjson::SUCCESS)
    return refuse(std::string("it is not JSON: ") + simdjson::error_message(code));
  if (root.at_key("weight_map").get(map) != simdjson::SUCCESS)
    return refuse("it has no object \"weight_map\"");
  std::map<std::string, std::uint16_t, std::less<>> shards;
  std::size_t tensors = 0;
  std::size_t name_bytes = 0;
  for (const dom::key_value_pair field : map) {
    std::string_view shard;
    if (field.key.size() > k_name_bytes_max || ++tensors > k_tensors_max)
      return refuse("it lists too many tensors, or the name of one is too long");
    if (field.value.get(shard) != simdjson::SUCCESS || !is_plain_name(shard)) {
      return refuse("tensor \"" + std::string(field.key) +
                    "\" is placed in something that is no plain .safetensors file name");
    }
    name_bytes += field.key.size();
    if (!shards.contains(shard)) shards.emplace(shard, std::uint16_t{0});
    if (shards.size() > k_shards_max) return refuse("it lists too many shards");
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
  if (const auto twice = out.seal()) return refuse("tensor \"" + *twice + "\" is listed twice");
  return names;
}

}  // namespace weir::engine::model
