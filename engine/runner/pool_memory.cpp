#include "engine/runner/pool_memory.hpp"

#include <algorithm>
#include <cassert>

namespace weir::engine::runner {

template <class A>
pool_memory<A>::pool_memory(const model::model_config& config, const runner_config& options)
    : layout_(layout_of(config, options.backend, options.page_tokens)),
      page_cells_(layout_.page_bytes / static_cast<std::int64_t>(sizeof(A))),
      state_cells_(slot_bytes(config, options.backend) / static_cast<std::int64_t>(sizeof(A))) {
  const auto total = static_cast<std::size_t>(options.slab_count * slab_cells());
  cells_ = std::make_unique_for_overwrite<A[]>(total);
  const std::span<A> all(cells_.get(), total);
  std::int64_t in_slab = 0;
  std::int64_t in_page = 0;
  const auto part = [&all](std::int64_t& at, std::int64_t cells) {
    const std::int64_t begin = at;
    at += cells;
    return all.subspan(static_cast<std::size_t>(begin));
  };
  const std::int64_t channels = config.kda_channels();
  for (const model::layer_kind kind : config.layers) {
    layer_memory<A>& layer = layers_.emplace_back();
    if (kind == model::layer_kind::kda) {
      layer.state = part(in_slab, channels * config.kda_dim);
      for (std::span<A>& conv : layer.conv) conv = part(in_slab, (config.conv_taps - 1) * channels);
    } else {
      layer.pages = part(in_page, static_cast<std::int64_t>(config.latent_width()) * options.page_tokens);
    }
  }
  assert(in_slab == state_cells_ && in_slab <= slab_cells() && in_page <= page_cells_);
}

template <class A>
void pool_memory<A>::copy(std::span<const kv::memory_op> ops) {
  for (const kv::memory_op& op : ops) {
    if (op.from == op.to) continue;
    const bool state = op.what == kv::memory_op::kind::copy_state;
    const std::int64_t stride = state ? slab_cells() : page_cells_;
    std::copy_n(cells_.get() + op.from * stride, state ? state_cells_ : page_cells_,
                cells_.get() + op.to * stride);
  }
}

template class pool_memory<double>;
template class pool_memory<float>;

}  // namespace weir::engine::runner
