// Runs batches through a model: owns the MLA pages, the KDA state slots and the activations, and turns rows
// into logits. Knows nothing of requests. One thread (the worker's); kernels may use more inside a call.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/engine.hpp"
#include "engine/kv/memory_op.hpp"
#include "engine/model/weights.hpp"
#include "engine/monitor/expert_load.hpp"
#include "engine/parallel/communicator.hpp"
#include "engine/parallel/split.hpp"
#include "engine/result.hpp"
#include "engine/runner/batch.hpp"
#include "kernels/timing.hpp"

namespace weir::engine::runner {

// The published code builds kv_a_layernorm and q_a_layernorm without passing rms_norm_eps, so they use their
// class default.
inline constexpr double k_latent_norm_eps = 1e-6;
// x * rsqrt(sum(x²) + eps), on KDA queries and keys.
inline constexpr double k_l2_norm_eps = 1e-6;

struct loaded_model {
  model::model_config config;
  model::model_weights weights;
};

struct runner_config {
  backend_kind backend = backend_kind::cpu;
  kernels::activation_format activations = kernels::activation_format::float32;
  int compute_threads = 1;
  std::int32_t device = 0;  // of the cuda backend
  std::int32_t slab_count = 1;
  std::int32_t page_tokens = 64;
  double latent_norm_eps =
      k_latent_norm_eps;  // the last two are set otherwise only to measure what they matter
  double l2_norm_eps = k_l2_norm_eps;
  parallel::communicator* ranks = nullptr;  // of which it computes one's part; outlives the runner
  parallel::shard part;                     // which one
  kernels::op_times* times = nullptr;       // where run() notes what its operations took; outlives the runner
  monitor::expert_load* experts = nullptr;  // where it notes which experts it sent tokens to; likewise
};

// How the one pool is carved. A slab takes one state, or slab_pages pages: the state's size rounded up to
// whole pages. A page starts on a multiple of 64 bytes.
struct memory_layout {
  std::int64_t page_bytes = 0;
  std::int32_t slab_pages = 1;
  std::int64_t slab_bytes() const noexcept { return page_bytes * slab_pages; }
};

class model_runner {
 public:
  virtual ~model_runner() = default;

  // A batch's slots are slabs, its pages places (slab * slab_pages + place within the slab).
  // REQUIRES: token ids, slots and pages in range; a sequence's positions follow those already computed in
  // its slot and pages.
  virtual void run(const batch& work) = 0;

  // Does the copies in order. REQUIRES: slabs and places in range.
  virtual void copy(std::span<const kv::memory_op> ops) = 0;

  // Logits of logit_rows[index] of the last batch, widened. `out` is [V].
  virtual void copy_logits(std::int32_t index, std::span<double> out) const = 0;

  // Frobenius norm of each KDA layer's recurrent state, in layer order; of one rank's heads where there are
  // ranks.
  virtual std::vector<double> kda_state_norms(std::int32_t slot) const = 0;

  // Throws where it is known that run() would, because a part of it elsewhere is gone. Does not wait.
  virtual void check() {}
};

struct load_options {
  weight_format weights = weight_format::stored;
  int threads = 1;                                                     // that narrow weights
  parallel::shard part = {};                                           // of the model, to load alone
  std::function<void(std::int64_t done, std::int64_t all)> told = {};  // of values narrowed; may be empty
};

// Reads config.json, unless `config` has been read from there, and the tensors of a model directory.
result<std::shared_ptr<const loaded_model>> load_model(const std::filesystem::path& dir,
                                                       const load_options& options = {});
result<std::shared_ptr<const loaded_model>> load_model(const std::filesystem::path& dir,
                                                       model::model_config config,
                                                       const load_options& options);

// What a number of the two kinds of memory takes: the cuda backend keeps latents as products read them.
struct number_bytes {
  std::int64_t state = 4;
  std::int64_t latent = 4;
};
number_bytes numbers_of(backend_kind backend,
                        kernels::activation_format activations = kernels::activation_format::float32);

// Bytes of one page's content over all MLA layers, and of one state over all KDA layers.
std::int64_t page_bytes(const model::model_config& config, number_bytes numbers, std::int32_t page_tokens);
std::int64_t slot_bytes(const model::model_config& config, number_bytes numbers);

// A model without MLA layers still has pages, of the smallest size, and one without KDA layers has states.
memory_layout layout_of(const model::model_config& config, number_bytes numbers, std::int32_t page_tokens);

// Throws std::bad_alloc when the pool cannot be reserved, std::runtime_error for a fault of a device. A
// runner of a device copies the model there and needs it no more.
std::unique_ptr<model_runner> make_runner(std::shared_ptr<const loaded_model> model,
                                          const runner_config& config);

}  // namespace weir::engine::runner
