#include "engine/model/safetensors.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include <simdjson.h>

namespace weir::engine::model {

namespace dom = simdjson::dom;

namespace {

constexpr std::size_t k_length_bytes = 8;

struct stored_type {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr stored_type k_stored_types[] = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"F8_E8M0", 1},
    {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},     {"U32", 4},
    {"F32", 4},  {"F64", 8}, {"I64", 8}, {"U64", 8},
};

std::unexpected<error> bad(std::string_view name, std::string_view what) {
  return fail(errc::bad_model, "tensor \"" + std::string(name) + "\": " + std::string(what));
}

std::optional<std::uint64_t> type_bytes(std::string_view name) {
  for (const stored_type& type : k_stored_types) {
    if (type.name == name) return type.bytes;
  }
  return std::nullopt;
}

result<std::vector<std::int64_t>> read_shape(std::string_view name, const dom::object& entry,
                                             std::uint64_t& bytes) {
  dom::array dims;
  if (entry.at_key("shape").get(dims) != simdjson::SUCCESS) return bad(name, "\"shape\" is not a list");
  std::vector<std::int64_t> shape;
  constexpr auto k_bytes_max = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  for (const dom::element item : dims) {
    std::uint64_t dim = 0;
    if (shape.size() == k_rank_dims_max) return bad(name, "\"shape\" has more than 8 dimensions");
    if (item.get(dim) != simdjson::SUCCESS || dim > k_bytes_max)
      return bad(name, "\"shape\" holds no valid size");
    if (dim != 0 && bytes > k_bytes_max / dim) return bad(name, "\"shape\" overflows");
    bytes *= dim;
    shape.push_back(static_cast<std::int64_t>(dim));
  }
  return shape;
}

result<std::pair<std::uint64_t, std::uint64_t>> read_range(std::string_view name, const dom::object& entry) {
  dom::array offsets;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  if (entry.at_key("data_offsets").get(offsets) != simdjson::SUCCESS || offsets.size() != 2 ||
      offsets.at(0).get(begin) != simdjson::SUCCESS || offsets.at(1).get(end) != simdjson::SUCCESS) {
    return bad(name, "\"data_offsets\" is not a pair of offsets");
  }
  return std::pair(begin, end);
}

result<tensor_view> read_entry(std::string_view name, const dom::element& value,
                               std::span<const std::byte> data) {
  dom::object entry;
  if (value.get(entry) != simdjson::SUCCESS) return bad(name, "its entry is not an object");
  std::string_view dtype;
  if (entry.at_key("dtype").get(dtype) != simdjson::SUCCESS) return bad(name, "\"dtype\" is not a string");
  const auto element_bytes = type_bytes(dtype);
  if (!element_bytes) return bad(name, "unknown dtype " + std::string(dtype.substr(0, 16)));
  std::uint64_t bytes = *element_bytes;
  auto shape = read_shape(name, entry, bytes);
  if (!shape) return std::unexpected(shape.error());
  const auto range = read_range(name, entry);
  if (!range) return std::unexpected(range.error());
  const auto [begin, end] = *range;
  if (begin > end || end > data.size()) return bad(name, "its data lies outside the file");
  if (end - begin != bytes) {
    return bad(name, "shape " + to_string(*shape) + " of " + std::string(dtype) + " takes " +
                         std::to_string(bytes) + " bytes, its range has " + std::to_string(end - begin));
  }
  return tensor_view{std::string(dtype), std::move(*shape), data.subspan(begin, end - begin)};
}

result<void> check_overlap(const tensor_map& tensors) {
  std::vector<std::pair<std::span<const std::byte>, std::string_view>> ranges;
  ranges.reserve(tensors.size());
  for (const auto& [name, view] : tensors) {
    if (!view.data.empty()) ranges.emplace_back(view.data, name);
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const auto& a, const auto& b) { return a.first.data() < b.first.data(); });
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first.data() < ranges[i - 1].first.data() + ranges[i - 1].first.size()) {
      return bad(ranges[i].second, "its data overlaps that of \"" + std::string(ranges[i - 1].second) + "\"");
    }
  }
  return {};
}

}  // namespace

std::string to_string(std::span<const std::int64_t> shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) out += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return out + "]";
}

result<tensor_map> parse_safetensors(std::span<const std::byte> file) {
  if (file.size() < k_length_bytes)
    return fail(errc::bad_model, "the file is too short for a safetensors header");
  std::uint64_t header_bytes = 0;
  for (std::size_t i = 0; i < k_length_bytes; ++i)
    header_bytes |= std::to_integer<std::uint64_t>(file[i]) << (8 * i);
  const std::span<const std::byte> rest = file.subspan(k_length_bytes);
  if (header_bytes > k_header_bytes_max || header_bytes > rest.size()) {
    return fail(errc::bad_model, "the safetensors header claims " + std::to_string(header_bytes) +
                                     " bytes, the file has " + std::to_string(rest.size()) +
                                     " after the length");
  }
  const std::span<const std::byte> data = rest.subspan(header_bytes);
  dom::parser parser;
  dom::object root;
  const auto* text = reinterpret_cast<const char*>(rest.data());
  const simdjson::error_code code = parser.parse(text, header_bytes).get(root);
  if (code != simdjson::SUCCESS) {
    const std::string reason = simdjson::error_message(code);
    return fail(errc::bad_model, "the safetensors header is not a JSON object: " + reason);
  }
  tensor_map tensors;
  for (const dom::key_value_pair field : root) {
    if (field.key == "__metadata__") continue;
    if (tensors.size() == k_tensors_max)
      return fail(errc::bad_model, "the safetensors header lists too many tensors");
    if (field.key.size() > k_name_bytes_max) return bad(field.key.substr(0, 64), "its name is too long");
    auto view = read_entry(field.key, field.value, data);
    if (!view) return std::unexpected(view.error());
    if (!tensors.emplace(field.key, std::move(*view)).second) return bad(field.key, "is listed twice");
  }
  if (auto disjoint = check_overlap(tensors); !disjoint) return std::unexpected(disjoint.error());
  return tensors;
}

}  // namespace weir::engine::model
