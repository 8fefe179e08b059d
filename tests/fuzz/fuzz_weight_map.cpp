// Arbitrary bytes as the list of a checkpoint's shards: parsing ends, and every tensor is in a shard whose
// name is no path.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "engine/model/weight_map.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir::engine::model;
  tensor_index index;
  const std::span<const std::byte> text(reinterpret_cast<const std::byte*>(data), size);
  const auto shards = parse_weight_map(text, index);
  if (!shards) {
    if (shards.error().detail.empty()) std::abort();
    return 0;
  }
  if (shards->size() > index.size()) std::abort();
  if (index.first_unplaced().has_value() != (index.size() > 0)) std::abort();
  for (const std::string& name : *shards) {
    if (name.find('/') != std::string::npos || name.starts_with(".")) std::abort();
  }
  // Each can be placed in the one shard that it is listed in.
  const tensor_view view{"U8", {1}, text.first(1)};
  while (const auto name = index.first_unplaced()) {
    std::size_t taken = 0;
    for (std::size_t shard = 0; shard < shards->size() && taken == 0; ++shard) {
      index.put(*name, static_cast<std::uint16_t>(shard), view, 0);
      const auto place = index.find(*name);
      if (place && place->shard != shard) std::abort();
      taken += place ? 1 : 0;
    }
    if (taken != 1) std::abort();
  }
  return 0;
}
