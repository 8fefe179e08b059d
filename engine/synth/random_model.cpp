#include "engine/synth/random_model.hpp"

#include <cstdio>
#include <new>
#include <string>
#include <utility>

#include "engine/model/mapped_file.hpp"
#include "engine/model/narrow_weights.hpp"
#include "engine/runner/backend.hpp"
#include "engine/synth/device_source.hpp"
#include "engine/synth/random_source.hpp"
#include "engine/synth/write_checkpoint.hpp"

namespace weir::engine::synth {

namespace {

// Of /proc/meminfo, which has no size of its own; below 0: not known.
std::int64_t available_bytes() {
  std::FILE* const file = std::fopen("/proc/meminfo", "re");
  if (file == nullptr) return -1;
  char line[256];
  std::int64_t found = -1;
  while (found < 0 && std::fgets(line, sizeof line, file) != nullptr) {
    long long kib = 0;
    if (std::sscanf(line, "MemAvailable: %lld kB", &kib) == 1) found = kib * 1024;
  }
  std::fclose(file);
  return found;
}

// The model keeps the source, and with it the memory.
result<std::shared_ptr<const runner::loaded_model>> make_on_device(
    const random_options& options, model::model_config config, kernels::thread_pool& pool,
    const std::function<void(std::int64_t)>& told) {
  const runner::device_backend* const cuda = runner::cuda_backend();
  if (cuda == nullptr) return fail(errc::unsupported, "this program was built without CUDA");
  if (options.weights != weight_format::stored) {
    return fail(errc::unsupported, "weights that are made on a device are not narrowed there");
  }
  auto where = cuda->open(0);
  if (!where) return std::unexpected(where.error());
  try {
    auto source = std::make_shared<device_source>(options.seed, pool, std::move(*where), told);
    auto weights = model::bind_weights(config, source);
    if (!weights) return std::unexpected(weights.error());
    weights->elsewhere = source;
    return std::make_shared<const runner::loaded_model>(
        runner::loaded_model{std::move(config), std::move(*weights)});
  } catch (const std::bad_alloc&) {
    return fail(errc::bad_request, "the weights do not fit the device's memory");
  }
}

}  // namespace

result<std::shared_ptr<const runner::loaded_model>> make_model(const random_options& options) {
  const auto text = model::read_file(options.config_file, model::k_config_bytes_max);
  if (!text) return std::unexpected(text.error());
  auto config = model::parse_model_config(*text);
  if (!config) return std::unexpected(config.error());
  const auto tensors = tensors_of(*config);
  if (!tensors) return std::unexpected(tensors.error());
  std::int64_t all = 0;
  for (const named_tensor& t : *tensors) all += plan_of(t.name, t.shape, t.how).bytes;
  kernels::thread_pool pool(options.threads);
  const auto told = [&](std::int64_t done) {
    if (options.told) options.told(done, all);
  };
  if (options.on_device) return make_on_device(options, std::move(*config), pool, told);
  if (const auto free = available_bytes(); free >= 0 && all > free) {
    return fail(errc::bad_request, "the weights take " + std::to_string(all) + " bytes; this machine has " +
                                       std::to_string(free) + " free");
  }
  auto source = std::make_shared<random_source>(options.seed, pool, told);
  auto weights = model::bind_weights(*config, source);
  if (!weights) return std::unexpected(weights.error());
  source->finished();
  model::narrow_weights(*weights, options.weights, pool, {});
  return std::make_shared<const runner::loaded_model>(
      runner::loaded_model{std::move(*config), std::move(*weights)});
}

}  // namespace weir::engine::synth
