// Arbitrary bytes as a weight file: parsing ends, and every view it returns lies inside the bytes.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "engine/model/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  const auto tensors = weir::engine::model::parse_safetensors(file);
  if (!tensors) {
    if (tensors.error().detail.empty()) std::abort();
    return 0;
  }
  std::size_t covered = 0;
  for (const auto& [name, view] : *tensors) {
    covered += view.data.size();
    if (view.data.empty()) continue;
    if (view.data.data() < file.data() || view.data.data() + view.data.size() > file.data() + size)
      std::abort();
    std::size_t elements = 1;
    for (const std::int64_t dim : view.shape) elements *= static_cast<std::size_t>(dim);
    if (view.data.size() % elements != 0) std::abort();
  }
  if (covered > size) std::abort();  // ranges do not overlap
  return 0;
}
