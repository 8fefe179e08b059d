// What computes: chosen once, by name, when an engine is opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

namespace weir::engine {

enum class backend_kind : std::uint8_t {
  automatic,  // cuda where there is a device, else cpu
  reference,  // scalar, double
  cpu,        // vectorised float32
  cuda,       // float32 on an NVIDIA device; products on tensor cores where activations are narrow
};

inline constexpr std::string_view k_backend_names[] = {"auto", "reference", "cpu", "cuda"};

constexpr std::string_view to_text(backend_kind backend) {
  return k_backend_names[static_cast<std::size_t>(backend)];
}

constexpr std::optional<backend_kind> backend_kind_of(std::string_view name) {
  for (std::size_t i = 0; i < std::size(k_backend_names); ++i) {
    if (k_backend_names[i] == name) return static_cast<backend_kind>(i);
  }
  return std::nullopt;
}

}  // namespace weir::engine
