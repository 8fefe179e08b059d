#include "engine/model/quantization.hpp"

#include <string>
#include <vector>

namespace weir::engine::model {

namespace {

constexpr std::size_t k_targets_max = 64;
constexpr std::size_t k_ignored_max = 1U << 16;

void expect_integer(json_fields& fields, std::string_view key, std::int32_t wanted) {
  const std::int32_t value = fields.integer(key, 0, 1 << 16);
  if (value != wanted)
    fields.refuse(key, "is " + std::to_string(value) + "; this build runs " + std::to_string(wanted));
}

void expect_unset(json_fields& fields, std::string_view key) {
  if (fields.is_set(key)) fields.refuse(key, "is not supported by this build");
}

void check_weights(json_fields& weights) {
  expect_integer(weights, "num_bits", 4);
  weights.expect_text("type", "float", "absent");
  weights.expect_text("strategy", "group", "absent");
  expect_integer(weights, "group_size", kernels::k_mxfp4_group);
  if (!weights.boolean("symmetric", true)) weights.refuse("symmetric", "must be true");
  if (weights.has("scale_dtype")) weights.expect_text("scale_dtype", "torch.uint8", "absent");
  for (const std::string_view key : {"dynamic", "actorder", "block_structure"}) expect_unset(weights, key);
}

void check_group(json_fields& group) {
  if (group.texts("targets", k_targets_max) != std::vector<std::string>{"Linear"})
    group.refuse("targets", "must be [\"Linear\"]");
  for (const std::string_view key : {"input_activations", "output_activations"}) expect_unset(group, key);
  if (group.has("format")) group.expect_text("format", "mxfp4-pack-quantized", "absent");
  if (auto weights = group.object("weights")) {
    check_weights(*weights);
    group.adopt(*weights);
  }
}

void check_widths(json_fields& fields, const model_config& config) {
  if (config.experts == 0) return;
  const auto whole = [&fields](std::string_view key, std::int32_t width) {
    if (width % kernels::k_mxfp4_group == 0) return;
    fields.reject(errc::bad_model, "\"" + std::string(key) + "\" must be a multiple of " +
                                       std::to_string(kernels::k_mxfp4_group) + " for packed experts");
  };
  whole("moe_intermediate_size", config.expert_width);
  whole(config.routed_width > 0 ? "routed_expert_hidden_size" : "hidden_size", config.expert_dim());
}

}  // namespace

void read_quantization(json_fields& fields, model_config& config) {
  if (!fields.has("quantization_config")) return;
  auto scheme = fields.object("quantization_config");
  if (!scheme) return;
  config.packed_experts = true;
  scheme->expect_text("quant_method", "compressed-tensors", "absent");
  scheme->expect_text("format", "mxfp4-pack-quantized", "absent");
  for (const std::string_view key : {"kv_cache_scheme", "sparsity_config", "transform_config"})
    expect_unset(*scheme, key);
  // Read for its form only: that nothing but routed experts is packed shows when the tensors are bound.
  scheme->texts("ignore", k_ignored_max);
  if (auto groups = scheme->object("config_groups")) {
    const std::vector<std::string> names = groups->keys();
    if (names.size() != 1) scheme->refuse("config_groups", "must hold one group");
    if (auto group = names.empty() ? std::nullopt : groups->object(names.front())) {
      check_group(*group);
      groups->adopt(*group);
    }
    scheme->adopt(*groups);
  }
  fields.adopt(*scheme);
  check_widths(fields, config);
}

}  // namespace weir::engine::model
