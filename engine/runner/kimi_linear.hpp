// The layer stack of Kimi-Linear and Kimi K3 as a list of kernel calls. A is the activation scalar of the
// kernel table. One thread.
//
// Layer, plain: x += attention(norm(x)); x += feed_forward(norm(x)). With residual blocks each of the two
// reads a mix of the blocks and x in the place of x, and every residual_block layers x becomes a block and
// starts anew with the attention's output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/runner/model_runner.hpp"
#include "engine/runner/pool_memory.hpp"
#include "kernels/parallel.hpp"
#include "kernels/table.hpp"

namespace weir::engine::runner {

// Uninitialised memory that grows and is kept between steps.
template <class T>
class scratch final {
 public:
  T* need(std::int64_t count) {
    if (static_cast<std::size_t>(count) > capacity_) {
      data_.reset();
      capacity_ = 0;
      data_ = std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(count));
      capacity_ = static_cast<std::size_t>(count);
    }
    return data_.get();
  }
  T* data() const noexcept { return data_.get(); }

 private:
  std::unique_ptr<T[]> data_;
  std::size_t capacity_ = 0;
};

template <class A>
class kimi_linear final : public model_runner {
 public:
  kimi_linear(std::shared_ptr<const loaded_model> model, const runner_config& config,
              kernels::kernel_table<A> table);

  void run(const batch& work) override;
  void copy(std::span<const kv::memory_op> ops) override { memory_.copy(ops); }
  void copy_logits(std::int32_t index, std::span<double> out) const override;
  std::vector<double> kda_state_norms(std::int32_t slot) const override;

 private:
  kernels::context workspace(std::size_t bytes);
  void project(const A* x, const kernels::matrix& weight, A* y, std::int32_t rows);
  void norm_rows(const A* x, const std::vector<float>& weight, A* y, std::int32_t rows);
  void kda_block(const model::kda_weights& w, const layer_memory<A>& memory, const batch& work);
  void kda_inputs(const model::kda_weights& w, const layer_memory<A>& memory, const batch& work);
  void mla_block(const model::mla_weights& w, const layer_memory<A>& memory, const batch& work);
  void mlp_block(const model::mlp_weights& w, std::int32_t rows, A* y);
  void moe_block(const model::moe_weights& w, std::size_t layer, std::int32_t rows);
  void routed_experts(const model::moe_weights& w, std::size_t layer, const A* x, A* y, std::int32_t rows);
  void unit_mul(A* gate, const A* up, std::int64_t count);
  const A* read_stream(const std::optional<model::mix_weights>& mix, std::int32_t rows);
  bool close_block(std::size_t layer, std::int32_t rows);
  void head(const batch& work);

  std::shared_ptr<const loaded_model> model_;
  const model::model_config& config_;
  runner_config options_;
  kernels::kernel_table<A> backend_;
  kernels::kernel_table<A> table_;  // the backend's, or in front of it one that notes times
  kernels::thread_pool pool_;
  pool_memory<A> memory_;
  scratch<std::byte> workspace_;

  // Activations of one step. normed_ feeds a block, delta_ takes its output.
  scratch<A> x_, normed_, delta_, mixed_;  // [T, M]
  scratch<A> blocks_;                      // [S, T, M], of which block_count_ are filled
  std::int32_t block_count_ = 0;
  scratch<A> routed_in_, routed_out_;          // [T, L]
  scratch<A> low_;                             // [T, D] or [T, q_lora_rank]
  scratch<A> projected_;                       // [T, C] before the convolution
  scratch<A> q_, k_, v_, g_, gate_, o_;        // [T, C]; q_ and o_ also of the MLA block
  scratch<A> beta_;                            // [T, H]
  scratch<A> latents_;                         // [T, R + Dr]
  scratch<A> mlp_gate_, mlp_up_, mlp_out_;     // [T, F], [T, F], [T, M]
  scratch<A> router_logits_, router_weights_;  // [T, E], [T, k]
  scratch<std::int32_t> router_ids_;           // [T, k]
  scratch<A> picked_, logits_;                 // [L, M], [L, V]
};

extern template class kimi_linear<double>;
extern template class kimi_linear<float>;

}  // namespace weir::engine::runner
