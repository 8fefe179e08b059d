#include "engine/plan/memory_plan.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace weir::engine::plan {

namespace {

std::int64_t split(std::int64_t bytes, std::int32_t gpus) {
  return (bytes + gpus - 1) / gpus;
}

result<void> check(const model::model_config& config, const plan_request& r) {
  const auto outside = [](std::int64_t value, std::int64_t min, std::int64_t max) {
    return value < min || value > max;
  };
  const auto bad = [](const std::string& what) { return fail(errc::bad_request, what); };
  if (outside(r.gpus, 1, k_gpus_max)) return bad("the number of GPUs must be from 1 to 4096");
  if (outside(r.memory_bytes, 1, k_memory_bytes_max)) return bad("memory must be from 1 byte to 1 PiB");
  if (outside(r.runtime_bytes, 0, k_memory_bytes_max)) return bad("runtime must be from 0 bytes to 1 PiB");
  for (const std::int64_t count : {r.sequences, r.kept, r.moving}) {
    if (outside(count, 0, k_sequences_max)) {
      return bad("sequences, kept and moving ones must be from 0 to 1048576");
    }
  }
  if (outside(r.context_tokens, 1, config.context_tokens)) {
    return bad("the context must be from 1 token to the model's " + std::to_string(config.context_tokens));
  }
  for (const auto& [heads, of] : {std::pair(config.kda_heads, "KDA"), std::pair(config.mla_heads, "MLA")}) {
    if (heads % r.gpus == 0) continue;
    return bad("the " + std::to_string(heads) + " " + of + " heads cannot be split evenly over " +
               std::to_string(r.gpus) + " GPUs");
  }
  for (const std::int32_t size : {r.formats.state, r.formats.tail, r.formats.latent}) {
    if (outside(size, 1, 8)) return bad("a number takes from 1 to 8 bytes");
  }
  return {};
}

// The largest of those that are left when the ones before it fit; see memory_plan::binding.
envelope find_binding(const memory_plan& plan) {
  std::int64_t sum = 0;
  for (const envelope fixed : {envelope::weights, envelope::runtime}) {
    sum += plan.at(fixed);
    if (sum > plan.memory_bytes) return fixed;
  }
  const auto first = plan.fits() ? plan.bytes.begin() : plan.bytes.begin() + 2;
  return static_cast<envelope>(std::max_element(first, plan.bytes.end()) - plan.bytes.begin());
}

}  // namespace

const char* name_of(envelope which) noexcept {
  static constexpr const char* k_names[k_envelopes] = {"weights", "runtime",     "states",
                                                       "pages",   "replication", "transfer"};
  return k_names[static_cast<std::size_t>(which)];
}

result<memory_plan> make_plan(const model::model_config& config, const plan_request& r) {
  if (auto checked = check(config, r); !checked) return std::unexpected(checked.error());
  const std::int64_t state = split(state_bytes(config, r.formats), r.gpus);
  const std::int64_t token = token_bytes(config, r.formats);
  const std::int64_t pages = token * r.context_tokens;
  memory_plan out;
  out.memory_bytes = r.memory_bytes;
  out.sequence_bytes = state + pages;
  out.bytes = {split(weight_bytes(config, r.weights), r.gpus),
               r.runtime_bytes,
               r.sequences * state,
               r.sequences * pages,
               r.kept * out.sequence_bytes,
               r.moving * out.sequence_bytes};
  out.sum = std::accumulate(out.bytes.begin(), out.bytes.end(), std::int64_t{0});
  const std::int64_t running = out.at(envelope::states) + out.at(envelope::pages);
  const std::int64_t left = std::max<std::int64_t>(r.memory_bytes - (out.sum - running), 0);
  out.sequences_max = out.sequence_bytes == 0 ? k_sequences_max : left / out.sequence_bytes;
  out.context_max = config.context_tokens;
  if (r.sequences > 0 && token > 0) {
    const std::int64_t for_pages = std::max<std::int64_t>(left / r.sequences - state, 0);
    out.context_max = std::min<std::int64_t>(for_pages / token, config.context_tokens);
  }
  out.binding = find_binding(out);
  return out;
}

std::string sum_text(const memory_plan& plan) {
  std::string out;
  for (std::size_t i = 0; i < k_envelopes; ++i) {
    out += (i == 0 ? "" : " + ") + std::string(name_of(static_cast<envelope>(i))) + ' ' +
           std::to_string(plan.bytes[i]);
  }
  return out + " = " + std::to_string(plan.sum) + " bytes, of " + std::to_string(plan.memory_bytes);
}

}  // namespace weir::engine::plan
