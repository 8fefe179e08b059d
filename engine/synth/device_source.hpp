// Random weights straight in a device's memory, where the host's would not hold them: of each kind of matrix
// one block is drawn on the host, and fills every matrix of that kind. Vectors stay on the host. One thread;
// `pool` may use more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/runner/device.hpp"
#include "engine/synth/random_source.hpp"

namespace weir::engine::synth {

inline constexpr std::size_t k_block_bytes = std::size_t{16} << 20;  // more than caches hold

class device_source final : public model::tensor_source {
 public:
  device_source(std::uint64_t seed, kernels::thread_pool& pool, std::shared_ptr<runner::device> where,
                std::function<void(std::int64_t)> told);

  std::optional<model::tensor_view> find(std::string_view) const override { return std::nullopt; }
  // Throws std::bad_alloc, std::runtime_error for a fault of the device.
  std::optional<model::tensor_view> take(std::string_view name, const std::vector<std::int64_t>& shape,
                                         model::storage how) override;

 private:
  using memory = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;

  std::byte* reserve(std::size_t bytes);
  memory allocate(std::size_t bytes);

  std::uint64_t seed_;
  kernels::thread_pool& pool_;
  std::shared_ptr<runner::device> device_;
  std::function<void(std::int64_t)> told_;
  random_source vectors_;
  std::map<std::string, memory> blocks_;  // by kind
  std::vector<memory> chunks_;            // that matrices are cut from
  std::size_t used_ = 0;                  // of the last chunk
  std::int64_t made_bytes_ = 0;
};

}  // namespace weir::engine::synth
