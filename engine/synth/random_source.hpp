// A model of random weights in memory, of any configuration: to measure what a checkpoint of that size would
// cost, without one. Values have the spread of trained ones, so that activations stay finite and experts are
// chosen evenly. The same seed and name give the same tensor, whatever the thread count. One thread calls;
// `pool` may use more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/model/huge_arena.hpp"
#include "engine/model/tensor_source.hpp"
#include "kernels/parallel.hpp"

namespace weir::engine::synth {

// What a tensor is made of, as the published files store it.
struct tensor_plan {
  std::string_view dtype;  // BF16, F32 or U8, as safetensors writes it
  std::int64_t values = 0;
  std::int64_t bytes = 0;
};

tensor_plan plan_of(std::string_view name, const std::vector<std::int64_t>& shape, model::storage how);

// Fills `out`, the bytes [first, first + out.size()) of the tensor. REQUIRES: `first` a multiple of
// k_fill_bytes.
inline constexpr std::size_t k_fill_bytes = std::size_t{1} << 20;
void fill_tensor(std::string_view name, const std::vector<std::int64_t>& shape, model::storage how,
                 std::uint64_t seed, std::size_t first, std::span<std::byte> out, kernels::thread_pool& pool);

class random_source final : public model::tensor_source {
 public:
  // `told`: called after each tensor with the bytes made so far. May be empty.
  random_source(std::uint64_t seed, kernels::thread_pool& pool, std::function<void(std::int64_t)> told);
  // Nothing more is taken: `pool` and `told` may go.
  void finished() noexcept;

  std::optional<model::tensor_view> find(std::string_view name) const override;
  // Throws std::bad_alloc.
  std::optional<model::tensor_view> take(std::string_view name, const std::vector<std::int64_t>& shape,
                                         model::storage how) override;

 private:
  std::uint64_t seed_;
  kernels::thread_pool* pool_;
  std::function<void(std::int64_t)> told_;
  std::int64_t made_bytes_ = 0;
  model::huge_arena memory_;
};

}  // namespace weir::engine::synth
