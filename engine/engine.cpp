#include "engine/engine.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <numeric>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>

#include "engine/parallel/follower.hpp"
#include "engine/parallel/group.hpp"
#include "engine/parallel/leader.hpp"
#include "engine/parallel/shard.hpp"
#include "engine/plan/memory_plan.hpp"
#include "engine/runner/backend.hpp"
#include "engine/runner/model_runner.hpp"
#include "engine/serve_model.hpp"
#include "engine/worker.hpp"
#include "kernels/parallel.hpp"

namespace weir::engine {

namespace {

// Limits of the configuration, each far beyond any sensible setting yet small enough for exact arithmetic.
constexpr std::int32_t k_sequences_max = 1 << 16;
constexpr std::int32_t k_queue_max = 1 << 20;
constexpr std::int32_t k_page_tokens_max = 1 << 12;
constexpr std::int32_t k_step_tokens_max = 1 << 20;
constexpr std::int64_t k_kv_bytes_max = std::int64_t{1} << 46;
constexpr std::size_t k_stop_tokens_max = 64;
constexpr std::int32_t k_unit_tokens_max = 1 << 12;
constexpr double k_decode_stretch_max = 100;
constexpr std::int32_t k_spacing_tokens_max = 1 << 24;
constexpr std::int64_t k_slabs_min = 2;  // a state, and pages

result<void> check(const engine_config& config) {
  const auto outside = [](std::int64_t value, std::int64_t min, std::int64_t max) {
    return value < min || value > max;
  };
  const auto bad = [](const std::string& what) {
    return fail(errc::bad_request, "engine configuration: " + what);
  };
  if (outside(config.compute_threads, 0, kernels::k_compute_threads_max)) {
    return bad("compute_threads must be from 0 to " + std::to_string(kernels::k_compute_threads_max));
  }
  if (outside(config.sequences_max, 1, k_sequences_max)) return bad("sequences_max must be from 1 to 65536");
  if (outside(config.queue_max, 0, k_queue_max)) return bad("queue_max must be from 0 to 1048576");
  if (outside(config.kv_bytes, 1, k_kv_bytes_max)) return bad("kv_bytes must be from 1 to 2^46");
  if (outside(config.memory_bytes, 0, plan::k_memory_bytes_max))
    return bad("memory_bytes must be from 0 to 2^50");
  if (outside(config.page_tokens, 1, k_page_tokens_max)) return bad("page_tokens must be from 1 to 4096");
  if (outside(config.step_tokens_max, config.sequences_max, k_step_tokens_max)) {
    return bad("step_tokens_max must be from sequences_max (a decode step of all sequences) to 1048576");
  }
  const bool stretches = config.decode_stretch >= 1 && config.decode_stretch <= k_decode_stretch_max;
  if (config.decode_stretch != 0 && !stretches) return bad("decode_stretch must be 0, or from 1 to 100");
  const prefix_cache_config& cache = config.prefix_cache;
  if (outside(cache.unit_tokens, 1, k_unit_tokens_max)) return bad("unit_tokens must be from 1 to 4096");
  if (outside(cache.spacing_tokens, 0, k_spacing_tokens_max) ||
      cache.spacing_tokens % cache.unit_tokens != 0) {
    return bad("spacing_tokens must be 0 or a multiple of unit_tokens, up to 16777216");
  }
  if (outside(cache.chunk_align_tokens, 1, config.step_tokens_max)) {
    return bad("chunk_align_tokens must be from 1 to step_tokens_max");
  }
  const ranks_config& ranks = config.ranks;
  if (outside(ranks.size, 1, parallel::k_ranks_max) || outside(ranks.rank, 0, ranks.size - 1)) {
    return bad("there may be from 1 to " + std::to_string(parallel::k_ranks_max) + " ranks, counted from 0");
  }
  return {};
}

// Checked, with what was left open decided for this machine.
result<engine_config> settle(const engine_config& wanted) {
  if (auto checked = check(wanted); !checked) return std::unexpected(checked.error());
  const auto backend = runner::resolve(wanted.backend);
  if (!backend) return std::unexpected(backend.error());
  engine_config out = wanted;
  out.backend = *backend;
  out.activations = wanted.activations.value_or(*backend == backend_kind::cuda ? activation_format::narrow
                                                                               : activation_format::float32);
  if (wanted.ranks.size > 1) out.device = wanted.ranks.local_rank;
  return out;
}

runner::memory_layout layout_of(const engine_config& config, const model::model_config& model) {
  const auto numbers = runner::numbers_of(config.backend, *config.activations);
  return runner::layout_of(model, numbers, config.page_tokens);
}

// One state and one page at the least; as many slabs as kv_bytes pays for.
result<std::int32_t> count_slabs(const engine_config& config, const runner::memory_layout& layout) {
  constexpr std::int64_t k_places_max = std::numeric_limits<std::int32_t>::max();
  const std::int64_t slabs =
      std::min(config.kv_bytes / layout.slab_bytes(), k_places_max / layout.slab_pages);
  if (slabs < k_slabs_min) {
    return fail(errc::bad_request, "engine configuration: kv_bytes must hold a sequence's state and pages, " +
                                       std::to_string(k_slabs_min * layout.slab_bytes()) + " bytes");
  }
  return static_cast<std::int32_t>(slabs);
}

int thread_count(const engine_config& config) {
  if (config.compute_threads > 0) return config.compute_threads;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int wanted = config.ranks.size > 1 ? cores / config.ranks.size : cores - 1;
  return std::clamp(wanted, 1, kernels::k_compute_threads_max);
}

// Before a weight is read. Of the six envelopes an engine by itself has four; the cache lives in the pool's.
result<void> check_memory(const engine_config& config, const model::model_config& whole) {
  const auto part = parallel::shard::of(config.ranks);
  if (auto divides = parallel::check_shard(whole, config.weights, part); !divides) return divides;
  std::int64_t memory_bytes = config.memory_bytes;
  if (memory_bytes == 0 && config.backend == backend_kind::cuda) {
    const auto facts = runner::cuda_backend()->facts(config.device);
    if (!facts) return std::unexpected(facts.error());
    memory_bytes = facts->free_memory_bytes;
  }
  if (memory_bytes == 0) return {};
  model::model_config model = parallel::config_of(whole, part);
  if (part.split == split_kind::expert) model.experts /= part.size;
  const runner::memory_layout layout = layout_of(config, model);
  const std::int32_t scalar = config.backend == backend_kind::reference ? 8 : 4;
  const std::int64_t states = std::min(config.sequences_max * layout.slab_bytes(), config.kv_bytes);
  plan::memory_plan needs;
  needs.memory_bytes = memory_bytes;
  needs.bytes = {plan::weight_bytes(model, config.weights),
                 plan::activation_bytes(model, config.step_tokens_max, config.sequences_max, scalar), states,
                 config.kv_bytes - states};
  needs.sum = std::accumulate(needs.bytes.begin(), needs.bytes.end(), std::int64_t{0});
  if (needs.fits()) return {};
  return fail(errc::bad_request, "the model does not fit memory_bytes: " + plan::sum_text(needs));
}

scheduler::limits make_limits(const engine_config& config, const kv::pool_shape& pool) {
  scheduler::limits out;
  out.sequences_max = config.sequences_max;
  out.step_tokens_max = config.step_tokens_max;
  out.chunk_align_tokens = config.prefix_cache.chunk_align_tokens;
  out.memory.pool = pool;
  out.memory.page_tokens = config.page_tokens;
  out.memory.cache = config.prefix_cache.enabled;
  out.memory.unit_tokens = config.prefix_cache.unit_tokens;
  out.memory.spacing_tokens = config.prefix_cache.spacing_tokens;
  out.memory.events = static_cast<bool>(config.on_cache_events);
  std::random_device random;
  out.memory.hash_seed = (static_cast<std::uint64_t>(random()) << 32) | random();
  return out;
}

// Null for a model without experts.
std::shared_ptr<monitor::expert_load> watch_experts(const runner::loaded_model& model) {
  if (model.config.experts == 0) return nullptr;
  std::vector<bool> has_experts;
  for (const auto& layer : model.weights.layers) has_experts.push_back(layer.moe.has_value());
  return std::make_shared<monitor::expert_load>(has_experts, model.config.experts);
}

// All that must be the same on every rank.
std::string settings_of(const engine_config& config, const model::model_config& model) {
  std::string out = model.architecture;
  const auto add = [&out](const char* what, std::int64_t value) {
    out += std::string(", ") + what + " " + std::to_string(value);
  };
  add("layers", model.layer_count());
  add("hidden", model.hidden_size);
  add("vocabulary", model.vocab_size);
  add("experts", model.experts);
  add("backend", static_cast<int>(config.backend));
  add("weights", static_cast<int>(config.weights));
  add("activations", static_cast<int>(*config.activations));
  add("split", static_cast<int>(config.ranks.split));
  add("kv_bytes", config.kv_bytes);
  add("page_tokens", config.page_tokens);
  add("step_tokens_max", config.step_tokens_max);
  add("sequences_max", config.sequences_max);
  return out;
}

struct loaded_rank {
  std::unique_ptr<parallel::communicator> ranks;  // null: this process computes alone
  std::shared_ptr<const runner::loaded_model> model;
};

result<loaded_rank> load_rank(const engine_config& config) {
  auto facts = model::load_model_config(config.model_dir);
  if (!facts) return std::unexpected(facts.error());
  if (auto fits = check_memory(config, *facts); !fits) return std::unexpected(fits.error());
  auto ranks = parallel::join_group(config.ranks, settings_of(config, *facts));
  if (!ranks) return std::unexpected(ranks.error());
  auto loaded = runner::load_model(config.model_dir, std::move(*facts),
                                   {.weights = config.weights,
                                    .threads = thread_count(config),
                                    .part = parallel::shard::of(config.ranks)});
  if (!loaded) return std::unexpected(loaded.error());
  return loaded_rank{std::move(*ranks), std::move(*loaded)};
}

// What of the pool a model has on this rank.
struct pool_plan {
  runner::memory_layout layout;
  std::int32_t slabs = 0;
};

result<pool_plan> plan_pool(const engine_config& config, const model::model_config& model) {
  const runner::memory_layout layout = layout_of(config, model);
  const auto slabs = count_slabs(config, layout);
  if (!slabs) return std::unexpected(slabs.error());
  return pool_plan{layout, *slabs};
}

// errc::io where there is no room for the pool.
result<std::unique_ptr<runner::model_runner>> make_runner(const engine_config& config,
                                                          const loaded_rank& loaded, const pool_plan& pool,
                                                          runner::runner_config placement = {}) {
  placement.backend = config.backend;
  placement.activations = *config.activations;
  placement.compute_threads = thread_count(config);
  placement.device = config.device;
  placement.slab_count = pool.slabs;
  placement.page_tokens = config.page_tokens;
  placement.ranks = loaded.ranks.get();
  placement.part = parallel::shard::of(config.ranks);
  try {
    return runner::make_runner(loaded.model, placement);
  } catch (const std::bad_alloc&) {
    return fail(errc::io, "not enough memory for kv_bytes, " +
                              std::to_string(pool.slabs * pool.layout.slab_bytes()) + " bytes");
  } catch (const std::runtime_error& fault) {
    return fail(errc::io, fault.what());
  }
}

class embedded_engine final : public engine {
 public:
  embedded_engine(model_info info, std::vector<std::int32_t> eos_tokens, const worker_config& config,
                  std::unique_ptr<runner::model_runner> runner)
      : info_(std::move(info)), eos_tokens_(std::move(eos_tokens)), worker_(config, std::move(runner)) {}

  const model_info& info() const noexcept override { return info_; }
  void cancel(sequence_id id) noexcept override { worker_.cancel(id); }
  engine_stats stats() const noexcept override { return worker_.stats(); }
  monitor::engine_activity activity() const override { return worker_.activity(); }
  bool serves() const noexcept override { return !worker_.is_lost(); }
  std::string fault() const override { return worker_.fault(); }
  void stop() noexcept override { worker_.stop(); }

  result<sequence_id> submit(generate_request request, std::shared_ptr<event_sink> sink) override {
    if (auto checked = check_request(request); !checked) return std::unexpected(checked.error());
    request.stop_tokens.insert(request.stop_tokens.end(), eos_tokens_.begin(), eos_tokens_.end());
    return worker_.submit(std::move(request), std::move(sink));
  }

 private:
  result<void> check_request(const generate_request& request) const {
    const auto in_vocabulary = [this](std::int32_t token) { return token >= 0 && token < info_.vocab_size; };
    if (request.prompt.empty()) return fail(errc::bad_request, "the prompt is empty");
    if (request.max_new_tokens < 1) return fail(errc::bad_request, "max_new_tokens must be at least 1");
    const auto total = static_cast<std::int64_t>(request.prompt.size()) + request.max_new_tokens;
    if (total > info_.context_tokens) {
      return fail(errc::context_length, "the prompt has " + std::to_string(request.prompt.size()) +
                                            " tokens and up to " + std::to_string(request.max_new_tokens) +
                                            " are to be generated; the context is " +
                                            std::to_string(info_.context_tokens) + " tokens");
    }
    if (!std::all_of(request.prompt.begin(), request.prompt.end(), in_vocabulary)) {
      return fail(errc::bad_request, "the prompt holds a token id outside the vocabulary");
    }
    if (request.stop_tokens.size() > k_stop_tokens_max ||
        !std::all_of(request.stop_tokens.begin(), request.stop_tokens.end(), in_vocabulary)) {
      return fail(errc::bad_request, "stop_tokens must be at most 64 token ids of the vocabulary");
    }
    if (request.scope.size() > k_scope_bytes_max) return fail(errc::bad_request, "the scope is too long");
    if (request.checkpoint_at.size() > k_checkpoint_hints_max) {
      return fail(errc::bad_request, "at most 64 positions may be given as worth a checkpoint");
    }
    return weir::engine::check(request.sampling, info_.vocab_size);
  }

  const model_info info_;
  const std::vector<std::int32_t> eos_tokens_;
  worker worker_;
};

result<model_info> describe(const engine_config& config, const runner::loaded_model& loaded,
                            const pool_plan& pool) {
  model_info info;
  info.architecture = loaded.config.architecture;
  info.backend = config.backend;
  info.activations = *config.activations;
  info.ranks = config.ranks.size;
  if (config.backend == backend_kind::cuda) {
    const auto facts = runner::cuda_backend()->facts(config.device);
    if (!facts) return std::unexpected(facts.error());
    info.device = facts->name;
  }
  info.vocab_size = loaded.config.vocab_size;
  const std::int64_t longest = (pool.slabs - 1LL) * pool.layout.slab_pages * config.page_tokens;
  info.context_tokens =
      static_cast<std::int32_t>(std::min<std::int64_t>(loaded.config.context_tokens, longest));
  info.eos_token = loaded.config.eos_tokens.front();
  info.parameter_count = loaded.weights.parameter_count;
  info.weight_bytes = loaded.weights.weight_bytes;
  return info;
}

result<std::unique_ptr<engine>> serve(const engine_config& config, loaded_rank loaded) {
  const auto pool = plan_pool(config, loaded.model->config);
  if (!pool) return std::unexpected(pool.error());
  auto info = describe(config, *loaded.model, *pool);
  if (!info) return std::unexpected(info.error());
  worker_config settings;
  settings.limits = make_limits(config, {pool->slabs, pool->layout.slab_pages});
  settings.queue_max = config.queue_max;
  settings.decode_stretch = config.decode_stretch;
  settings.page_bytes = pool->layout.page_bytes;
  settings.kv_bytes = config.kv_bytes;
  settings.vocab_size = info->vocab_size;
  settings.has_ranks = loaded.ranks != nullptr;
  settings.on_fault = config.on_fault;
  settings.on_cache_events = config.on_cache_events;
  const auto times = std::make_shared<kernels::op_times>();
  const auto experts = watch_experts(*loaded.model);
  settings.times = times;
  settings.experts = experts;
  auto run = make_runner(config, loaded, *pool, {.times = times.get(), .experts = experts.get()});
  if (!run) return std::unexpected(run.error());
  if (loaded.ranks) {
    if (auto all = parallel::wait_for_all(*loaded.ranks); !all) return std::unexpected(all.error());
    *run = parallel::make_leader(std::move(loaded.ranks), std::move(*run), config.page_tokens);
  }
  return std::make_unique<embedded_engine>(std::move(*info), loaded.model->config.eos_tokens, settings,
                                           std::move(*run));
}

}  // namespace

result<std::unique_ptr<engine>> engine::open(const engine_config& wanted) {
  const auto config = settle(wanted);
  if (!config) return std::unexpected(config.error());
  auto loaded = load_rank(*config);
  if (!loaded) return std::unexpected(loaded.error());
  return serve(*config, std::move(*loaded));
}

result<void> engine::follow(const engine_config& wanted) {
  const auto config = settle(wanted);
  if (!config) return std::unexpected(config.error());
  const auto loaded = load_rank(*config);
  if (!loaded) return std::unexpected(loaded.error());
  const auto pool = plan_pool(*config, loaded->model->config);
  if (!pool) return std::unexpected(pool.error());
  const auto own = make_runner(*config, *loaded, *pool);
  if (!own) return std::unexpected(own.error());
  if (auto all = parallel::wait_for_all(*loaded->ranks); !all) return all;
  parallel::step_limits limits;
  limits.vocab_size = loaded->model->config.vocab_size;
  limits.slab_count = pool->slabs;
  limits.slab_pages = pool->layout.slab_pages;
  limits.page_tokens = config->page_tokens;
  limits.context_tokens = loaded->model->config.context_tokens;
  limits.rows_max = config->step_tokens_max;
  limits.sequences_max = config->sequences_max;
  return parallel::follow(*loaded->ranks, **own, limits);
}

result<void> engine::check_before_load(const engine_config& wanted) {
  const auto config = settle(wanted);
  if (!config) return std::unexpected(config.error());
  const auto facts = model::load_model_config(config->model_dir);
  if (!facts) return std::unexpected(facts.error());
  return check_memory(*config, *facts);
}

result<std::unique_ptr<engine>> serve_model(const engine_config& wanted,
                                            std::shared_ptr<const runner::loaded_model> loaded) {
  const auto config = settle(wanted);
  if (!config) return std::unexpected(config.error());
  if (config->ranks.size > 1) return fail(errc::bad_request, "ranks load their parts themselves");
  return serve(*config, {nullptr, std::move(loaded)});
}

}  // namespace weir::engine
