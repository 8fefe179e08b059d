#include "engine/runner/model_runner.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <utility>

#include "engine/model/checkpoint.hpp"
#include "engine/model/narrow_weights.hpp"
#include "engine/parallel/shard.hpp"
#include "engine/runner/backend.hpp"
#include "engine/runner/kimi_linear.hpp"
#include "engine/runner/place_model.hpp"

namespace weir::engine::runner {

namespace {

constexpr std::int64_t k_page_align = 64;  // a cache line

// The device together with what its ranks speak through, which replaces `ranks`.
std::shared_ptr<device> with_ranks(const device_backend& cuda, std::shared_ptr<device> where,
                                   parallel::communicator*& ranks) {
  struct bundle {
    std::shared_ptr<device> where;
    std::unique_ptr<parallel::communicator> ranks;  // goes first
  };
  if (cuda.join == nullptr) throw std::runtime_error("this program was built without NCCL");
  auto joined = cuda.join(*ranks, *where);
  if (!joined) throw std::runtime_error(joined.error().detail);
  auto both = std::make_shared<bundle>(std::move(where), std::move(*joined));
  ranks = both->ranks.get();
  return {both, both->where.get()};
}

std::unique_ptr<model_runner> make_cuda_runner(const loaded_model& model, const runner_config& config) {
  const device_backend* const cuda = cuda_backend();
  if (cuda == nullptr) throw std::runtime_error("this program was built without CUDA");
  auto opened = cuda->open(config.device);
  if (!opened) throw std::runtime_error(opened.error().detail);
  std::shared_ptr<device> where = std::move(*opened);
  runner_config options = config;
  if (config.ranks != nullptr) where = with_ranks(*cuda, std::move(where), options.ranks);
  return std::make_unique<kimi_linear<float>>(place_model(model, where), options,
                                              cuda->table(config.activations), where);
}

}  // namespace

result<std::shared_ptr<const loaded_model>> load_model(const std::filesystem::path& dir,
                                                       model::model_config config,
                                                       const load_options& options) {
  auto files = model::checkpoint::open(dir);
  if (!files) return std::unexpected(files.error());
  if (auto divides = parallel::check_shard(config, options.weights, options.part); !divides) {
    return std::unexpected(divides.error());
  }
  auto weights = model::bind_weights(config, std::make_shared<model::checkpoint>(std::move(*files)));
  if (!weights) return std::unexpected(weights.error());
  try {
    parallel::take_shard(*weights, config, options.part);
    kernels::thread_pool pool(options.threads);
    model::narrow_weights(*weights, options.weights, pool, options.told);
  } catch (const std::bad_alloc&) {
    return fail(errc::io, "not enough memory for weights in fewer bits, or a rank's part of them");
  }
  return std::make_shared<const loaded_model>(
      loaded_model{parallel::config_of(config, options.part), std::move(*weights)});
}

result<std::shared_ptr<const loaded_model>> load_model(const std::filesystem::path& dir,
                                                       const load_options& options) {
  auto config = model::load_model_config(dir);
  if (!config) return std::unexpected(config.error());
  return load_model(dir, std::move(*config), options);
}

number_bytes numbers_of(backend_kind backend, kernels::activation_format activations) {
  if (backend == backend_kind::reference) return {8, 8};
  const bool narrow = activations == kernels::activation_format::narrow;
  return {4, backend == backend_kind::cuda && narrow ? 2 : 4};
}

std::int64_t page_bytes(const model::model_config& config, number_bytes numbers, std::int32_t page_tokens) {
  const std::int64_t layers = config.count(model::layer_kind::mla);
  return layers * config.latent_width() * page_tokens * numbers.latent;
}

std::int64_t slot_bytes(const model::model_config& config, number_bytes numbers) {
  const std::int64_t layers = config.count(model::layer_kind::kda);
  const std::int64_t per_channel = config.kda_dim + 3LL * (config.conv_taps - 1);
  return layers * config.kda_channels() * per_channel * numbers.state;
}

memory_layout layout_of(const model::model_config& config, number_bytes numbers, std::int32_t page_tokens) {
  const auto round_up = [](std::int64_t value, std::int64_t to) {
    return std::max<std::int64_t>((value + to - 1) / to, 1) * to;
  };
  memory_layout out;
  out.page_bytes = round_up(page_bytes(config, numbers, page_tokens), k_page_align);
  out.slab_pages =
      static_cast<std::int32_t>(round_up(slot_bytes(config, numbers), out.page_bytes) / out.page_bytes);
  return out;
}

std::unique_ptr<model_runner> make_runner(std::shared_ptr<const loaded_model> model,
                                          const runner_config& config) {
  if (config.backend == backend_kind::cuda) return make_cuda_runner(*model, config);
  auto host = std::make_shared<host_device>(config.compute_threads);
  if (config.backend == backend_kind::reference) {
    return std::make_unique<kimi_linear<double>>(std::move(model), config, kernels::make_reference_table(),
                                                 std::move(host));
  }
  return std::make_unique<kimi_linear<float>>(std::move(model), config,
                                              kernels::make_cpu_table(config.activations), std::move(host));
}

}  // namespace weir::engine::runner
