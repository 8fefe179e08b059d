// Arbitrary bytes as config.json: parsing ends, and what is accepted keeps the limits that later arithmetic
// relies on.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "engine/model/model_config.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir::engine::model;
  const auto config = parse_model_config(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!config) {
    if (config.error().detail.empty()) std::abort();
    return 0;
  }
  const bool sane =
      config->vocab_size >= 1 && config->vocab_size <= k_vocab_max && config->hidden_size >= 1 &&
      config->hidden_size <= k_hidden_max && config->layer_count() >= 1 &&
      config->layer_count() <= k_layers_max && config->kda_channels() >= 1 && config->latent_width() >= 1 &&
      config->context_tokens >= 2 && !config->eos_tokens.empty() &&
      config->eos_tokens.front() < config->vocab_size && config->dense_layers <= config->layer_count() &&
      config->experts_per_token <= config->experts &&
      config->residual_blocks() < weir::kernels::k_residual_sources_max && config->gate_lower_bound <= 0.0 &&
      config->routed_width >= 0 && config->routed_width <= k_hidden_max &&
      (!config->packed_experts || config->experts == 0 ||
       (config->expert_dim() % weir::kernels::k_mxfp4_group == 0 &&
        config->expert_width % weir::kernels::k_mxfp4_group == 0)) &&
      (config->situ.beta > 0.0) == (config->situ.linear_beta > 0.0) &&
      config->count(layer_kind::kda) + config->count(layer_kind::mla) == config->layer_count();
  if (!sane) std::abort();
  return 0;
}
