// The layer stack of Kimi-Linear and Kimi K3 as a list of kernel calls. A is the activation scalar of the
// kernel table. One thread.
//
// Layer, plain: x += attention(norm(x)); x += feed_forward(norm(x)). With residual blocks each of the two
// reads a mix of the blocks and x in the place of x, and every residual_block layers x becomes a block and
// starts anew with the attention's output.
//
// With ranks the model is one rank's part (parallel/shard.hpp), and there is one collective a block: a sum
// behind each output projection; or, for routed experts divided by number, the rows' way to them and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/runner/device.hpp"
#include "engine/runner/expert_exchange.hpp"
#include "engine/runner/model_runner.hpp"
#include "engine/runner/placed_batch.hpp"
#include "engine/runner/pool_memory.hpp"
#include "engine/runner/step_recordings.hpp"
#include "kernels/table.hpp"

namespace weir::engine::runner {

template <class A>
class kimi_linear final : public model_runner {
 public:
  // The model's weights lie where `where` computes.
  kimi_linear(std::shared_ptr<const loaded_model> model, const runner_config& config,
              kernels::kernel_table<A> table, std::shared_ptr<device> where);

  void run(const batch& work) override;
  void copy(std::span<const kv::memory_op> ops) override { memory_.copy(ops); }
  void copy_logits(std::int32_t index, std::span<double> out) const override;
  std::vector<double> kda_state_norms(std::int32_t slot) const override;

 private:
  // A mixture's experts, each list where the kernels run.
  struct expert_lists {
    kernels::matrix_list w1, w3, w2;
    std::int64_t index = 0;  // of the layer among those with experts
  };

  kernels::matrix_list place_list(const std::vector<kernels::matrix>& experts);
  kernels::context workspace(std::size_t bytes);
  void project(const A* x, const kernels::matrix& weight, A* y, std::int32_t rows);
  void norm_rows(const A* x, model::floats weight, A* y, std::int32_t rows);
  void kda_block(const model::kda_weights& w, const layer_memory<A>& memory);
  void kda_inputs(const model::kda_weights& w, const layer_memory<A>& memory);
  void mla_block(const model::mla_weights& w, const layer_memory<A>& memory);
  void mlp_block(const model::mlp_weights& w, const A* x, std::int32_t rows, A* y);
  void moe_block(const model::moe_weights& w, std::size_t layer);
  void routed_experts(const model::moe_weights& w, std::size_t layer, const A* normed, const A* x, A* y,
                      std::int32_t rows);
  void reduce(A* values, std::int64_t count);
  void unit_mul(A* gate, const A* up, std::int64_t count);
  const A* read_stream(const std::optional<model::mix_weights>& mix);
  bool close_block(std::size_t layer);
  void forward();
  void head();
  void note_experts();
  // Of the host: what `from` holds, or a copy of it in `copies`.
  template <class T>
  const T* read_back(const T* from, std::int64_t count, std::vector<T>& copies) const;

  std::shared_ptr<const loaded_model> model_;
  const model::model_config& config_;
  runner_config options_;
  kernels::kernel_table<A> backend_;
  kernels::kernel_table<A> table_;  // the backend's, or in front of it one that notes times
  const std::shared_ptr<device> device_;
  pool_memory<A> memory_;
  std::vector<expert_lists> expert_lists_;                 // by layer
  std::vector<std::unique_ptr<scratch<std::byte>>> kept_;  // what the lists point into, off the host
  scratch<std::byte> workspace_{*device_};

  std::optional<expert_exchange<A>> exchange_;  // with experts divided among ranks

  placed_batch placed_{*device_};
  step_recordings recordings_{*device_};

  // Activations of one step. normed_ feeds a block, delta_ takes its output.
  scratch<A> x_{*device_}, normed_{*device_}, delta_{*device_}, mixed_{*device_};  // [T, M]
  scratch<A> blocks_{*device_};  // [S, T, M], of which block_count_ are filled
  std::int32_t block_count_ = 0;
  scratch<A> routed_in_{*device_}, routed_out_{*device_};  // [T, L]; [T, L] and [T, M] behind it
  scratch<A> low_{*device_};                               // [T, D] or [T, q_lora_rank]
  scratch<A> projected_{*device_};                         // [T, C] before the convolution
  // [T, C]; q_ and o_ also of the MLA block
  scratch<A> q_{*device_}, k_{*device_}, v_{*device_}, g_{*device_}, gate_{*device_}, o_{*device_};
  scratch<A> beta_{*device_};                                             // [T, H]
  scratch<A> latents_{*device_};                                          // [T, R + Dr]
  scratch<A> mlp_gate_{*device_}, mlp_up_{*device_}, mlp_out_{*device_};  // [T, F], [T, F], [T, M]
  scratch<A> router_logits_{*device_}, router_weights_{*device_};         // [T, E], [T, k]
  scratch<std::int32_t> router_ids_{*device_};                            // [mixtures, T, k]
  scratch<A> picked_{*device_}, logits_{*device_};  // [L, M], [L, V]: of each rank the rows' parts
  scratch<A> own_logits_{*device_};                 // with ranks, [L, this one's part of V]
  std::vector<A> logits_copy_;
  const A* host_logits_ = nullptr;
  std::vector<std::int32_t> ids_copy_;
};

extern template class kimi_linear<double>;
extern template class kimi_linear<float>;

}  // namespace weir::engine::runner
