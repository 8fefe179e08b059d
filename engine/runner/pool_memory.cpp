#include "engine/runner/pool_memory.hpp"

#include <cassert>

namespace weir::engine::runner {

template <class A>
pool_memory<A>::pool_memory(const model::model_config& config, const runner_config& options, device& where)
    : device_(where),
      numbers_(numbers_of(options.backend, options.activations)),
      layout_(layout_of(config, numbers_, options.page_tokens)),
      state_bytes_(slot_bytes(config, numbers_)),
      bytes_(where) {
  std::byte* const all = bytes_.need(options.slab_count * layout_.slab_bytes());
  std::int64_t in_slab = 0;
  std::int64_t in_page = 0;
  const auto part = [all](std::int64_t& at, std::int64_t bytes) {
    std::byte* const begin = all + at;
    at += bytes;
    return begin;
  };
  const auto state_part = [&](std::int64_t cells) {
    return reinterpret_cast<A*>(part(in_slab, cells * static_cast<std::int64_t>(sizeof(A))));
  };
  const std::int64_t channels = config.kda_channels();
  for (const model::layer_kind kind : config.layers) {
    layer_memory<A>& layer = layers_.emplace_back();
    if (kind == model::layer_kind::kda) {
      layer.state = state_part(channels * config.kda_dim);
      for (A*& conv : layer.conv) conv = state_part((config.conv_taps - 1) * channels);
    } else {
      layer.pages = part(in_page, config.latent_width() * numbers_.latent * options.page_tokens);
    }
  }
  assert(in_slab == state_bytes_ && in_slab <= layout_.slab_bytes() && in_page <= layout_.page_bytes);
}

template <class A>
void pool_memory<A>::copy(std::span<const kv::memory_op> ops) {
  for (const kv::memory_op& op : ops) {
    if (op.from == op.to) continue;
    const bool state = op.what == kv::memory_op::kind::copy_state;
    const std::int64_t stride = state ? layout_.slab_bytes() : layout_.page_bytes;
    device_.copy(bytes_.data() + op.to * stride, bytes_.data() + op.from * stride,
                 static_cast<std::size_t>(state ? state_bytes_ : layout_.page_bytes));
  }
}

template class pool_memory<double>;
template class pool_memory<float>;

}  // namespace weir::engine::runner
