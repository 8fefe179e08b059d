#include "engine/runner/kimi_linear.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

namespace weir::engine::runner {

template <class A>
kimi_linear<A>::kimi_linear(std::shared_ptr<const loaded_model> model, const runner_config& config,
                            kernels::kernel_table<A> table, std::shared_ptr<device> where)
    : model_(std::move(model)),
      config_(model_->config),
      options_(config),
      backend_(table),
      table_(config.times != nullptr && where->is_host() ? kernels::make_timed_table(table) : table),
      device_(std::move(where)),
      memory_(config_, options_, *device_) {
  if (options_.ranks != nullptr && options_.part.split == split_kind::expert) {
    exchange_.emplace(*device_, *options_.ranks, options_.part);
  }
  std::int64_t mixtures = 0;
  for (const model::layer_weights& layer : model_->weights.layers) {
    expert_lists& lists = expert_lists_.emplace_back();
    if (!layer.moe) continue;
    lists = {place_list(layer.moe->w1), place_list(layer.moe->w3), place_list(layer.moe->w2), mixtures++};
  }
}

template <class A>
kernels::matrix_list kimi_linear<A>::place_list(const std::vector<kernels::matrix>& experts) {
  if (device_->is_host()) return {experts.data(), experts.front().type};
  const std::size_t bytes = experts.size() * sizeof(kernels::matrix);
  std::byte* const to = kept_.emplace_back(std::make_unique<scratch<std::byte>>(*device_))
                            ->need(static_cast<std::int64_t>(bytes));
  device_->upload(to, experts.data(), bytes);
  return {reinterpret_cast<const kernels::matrix*>(to), experts.front().type};
}

template <class A>
kernels::context kimi_linear<A>::workspace(std::size_t bytes) {
  return device_->context(workspace_.need(static_cast<std::int64_t>(bytes)), bytes);
}

template <class A>
void kimi_linear<A>::project(const A* x, const kernels::matrix& weight, A* y, std::int32_t rows) {
  if (rows == 0) return;
  const kernels::gemm_params<A> p{x, weight, y, rows};
  table_.gemm(p, workspace(table_.gemm_workspace_bytes(p, device_->thread_count())));
}

template <class A>
void kimi_linear<A>::norm_rows(const A* x, model::floats weight, A* y, std::int32_t rows) {
  const auto dim = static_cast<std::int32_t>(weight.size());
  table_.rmsnorm({x, weight.data(), y, rows, dim, dim, config_.rms_norm_eps}, device_->context());
}

template <class A>
void kimi_linear<A>::run(const batch& work) {
  const kernels::timing_scope<A> scope(backend_, options_.times);
  placed_.place(work);
  if (device_->can_record() && placed_.is_decode() && !exchange_) {
    recordings_.run(placed_.shape(), device_->allocations(), [this] { forward(); });
  } else {
    forward();
  }
  const std::int64_t cells = static_cast<std::int64_t>(placed_.logit_count()) * config_.vocab_size;
  host_logits_ = read_back(logits_.data(), cells, logits_copy_);
  note_experts();
}

template <class A>
void kimi_linear<A>::forward() {
  const std::int32_t rows = placed_.rows();
  const std::int64_t cells = static_cast<std::int64_t>(rows) * config_.hidden_size;
  const kernels::context plain = device_->context();
  A* x = x_.need(cells);
  A* normed = normed_.need(cells);
  A* delta = delta_.need(cells);
  table_.embed({model_->weights.embedding, placed_.tokens(), x, rows}, plain);
  blocks_.need(cells * config_.residual_blocks());
  block_count_ = 0;
  if (config_.experts > 0) {
    router_ids_.need(std::ssize(expert_lists_) * rows * config_.experts_per_token);
  }
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    const model::layer_weights& layer = model_->weights.layers[i];
    norm_rows(read_stream(layer.attention_mix), layer.input_norm, normed, rows);
    const bool anew = close_block(i);
    if (layer.kda) {
      kda_block(*layer.kda, memory_[i]);
    } else {
      mla_block(*layer.mla, memory_[i]);
    }
    reduce(delta, cells);
    if (anew) {
      device_->copy(x, delta, static_cast<std::size_t>(cells) * sizeof(A));
    } else {
      table_.add({x, delta, cells}, plain);
    }
    norm_rows(read_stream(layer.mlp_mix), layer.post_norm, normed, rows);
    if (layer.dense) {
      mlp_block(*layer.dense, normed, rows, delta);
      reduce(delta, cells);
    } else {
      moe_block(*layer.moe, i);
    }
    table_.add({x, delta, cells}, plain);
  }
  head();
}

// What ranks have of a block's output are parts of a sum.
template <class A>
void kimi_linear<A>::reduce(A* values, std::int64_t count) {
  if (options_.ranks != nullptr) options_.ranks->all_reduce({values, static_cast<std::size_t>(count)});
}

// What a block reads: the stream itself, or the mix.
template <class A>
const A* kimi_linear<A>::read_stream(const std::optional<model::mix_weights>& mix) {
  if (!mix) return x_.data();
  A* mixed = mixed_.need(static_cast<std::int64_t>(placed_.rows()) * config_.hidden_size);
  table_.residual_mix({blocks_.data(), x_.data(), mix->norm.data(), mix->proj.data(), mixed, block_count_,
                       placed_.rows(), config_.hidden_size, config_.rms_norm_eps},
                      device_->context());
  return mixed;
}

// Whether the stream became a block before this layer's attention, whose output it then starts anew with.
template <class A>
bool kimi_linear<A>::close_block(std::size_t layer) {
  if (config_.residual_block == 0 || layer % static_cast<std::size_t>(config_.residual_block) != 0)
    return false;
  const std::int64_t cells = static_cast<std::int64_t>(placed_.rows()) * config_.hidden_size;
  device_->copy(blocks_.data() + block_count_ * cells, x_.data(),
                static_cast<std::size_t>(cells) * sizeof(A));
  ++block_count_;
  return true;
}

// Fills q_, k_, v_, g_, beta_ and gate_ from normed_.
template <class A>
void kimi_linear<A>::kda_inputs(const model::kda_weights& w, const layer_memory<A>& memory) {
  const std::int32_t rows = placed_.rows();
  const std::int32_t channels = config_.kda_channels();
  const std::int64_t cells = static_cast<std::int64_t>(rows) * channels;
  const kernels::context plain = device_->context();
  const A* x = normed_.data();
  A* low = low_.need(static_cast<std::int64_t>(rows) * config_.kda_dim);
  const auto short_conv = [&](const kernels::matrix& weight, model::floats taps, A* tail, A* y) {
    A* projected = projected_.need(cells);
    project(x, weight, projected, rows);
    table_.short_conv(
        {projected, taps.data(), tail, y, placed_.view(), channels, config_.conv_taps, memory_.slab_cells()},
        plain);
  };
  A* q = q_.need(cells);
  A* k = k_.need(cells);
  short_conv(w.q, w.q_conv, memory.conv[0], q);
  short_conv(w.k, w.k_conv, memory.conv[1], k);
  short_conv(w.v, w.v_conv, memory.conv[2], v_.need(cells));
  const std::int32_t heads = rows * config_.kda_heads;
  const double query_scale = 1.0 / std::sqrt(static_cast<double>(config_.kda_dim));
  table_.l2norm({q, heads, config_.kda_dim, options_.l2_norm_eps, query_scale}, plain);
  table_.l2norm({k, heads, config_.kda_dim, options_.l2_norm_eps, 1.0}, plain);
  A* g = g_.need(cells);
  A* beta = beta_.need(heads);
  project(x, w.decay_a, low, rows);
  project(low, w.decay_b, g, rows);
  project(x, w.beta, beta, rows);
  table_.kda_gate({g, beta, w.dt_bias.data(), w.a_log.data(), rows, config_.kda_heads, config_.kda_dim,
                   config_.gate_lower_bound},
                  plain);
  if (!config_.full_rank_gate) project(x, w.gate_a, low, rows);
  project(config_.full_rank_gate ? x : low, w.gate, gate_.need(cells), rows);
}

template <class A>
void kimi_linear<A>::kda_block(const model::kda_weights& w, const layer_memory<A>& memory) {
  const std::int32_t rows = placed_.rows();
  const kernels::context plain = device_->context();
  kda_inputs(w, memory);
  A* o = o_.need(static_cast<std::int64_t>(rows) * config_.kda_channels());
  table_.kda({q_.data(), k_.data(), v_.data(), g_.data(), beta_.data(), memory.state, o, placed_.view(),
              config_.kda_heads, config_.kda_dim, memory_.slab_cells()},
             plain);
  table_.gated_norm(
      {o, gate_.data(), w.norm.data(), rows * config_.kda_heads, config_.kda_dim, config_.rms_norm_eps},
      plain);
  project(o, w.out, delta_.data(), rows);
}

template <class A>
void kimi_linear<A>::mla_block(const model::mla_weights& w, const layer_memory<A>& memory) {
  const std::int32_t rows = placed_.rows();
  const std::int64_t wide_rows = rows;
  const kernels::context plain = device_->context();
  const A* x = normed_.data();
  const std::int32_t width = config_.latent_width();
  A* q = q_.need(wide_rows * w.q.rows);
  if (config_.q_lora_rank > 0) {
    A* low = low_.need(wide_rows * config_.q_lora_rank);
    project(x, w.q_a, low, rows);
    table_.rmsnorm({low, w.q_a_norm.data(), low, rows, config_.q_lora_rank, config_.q_lora_rank,
                    options_.latent_norm_eps},
                   plain);
    project(low, w.q, q, rows);
  } else {
    project(x, w.q, q, rows);
  }
  A* latents = latents_.need(wide_rows * width);
  project(x, w.kv_a, latents, rows);
  table_.rmsnorm(
      {latents, w.kv_norm.data(), latents, rows, config_.kv_lora_rank, width, options_.latent_norm_eps},
      plain);
  table_.mla_store({latents, memory.pages, placed_.view(), width, options_.page_tokens, memory_.page_cells(),
                    memory_.format()},
                   plain);
  A* o = o_.need(wide_rows * config_.mla_heads * config_.value_dim);
  const kernels::mla_params<A> p{q,
                                 w.kv_b,
                                 memory.pages,
                                 o,
                                 placed_.view(),
                                 config_.mla_heads,
                                 config_.nope_dim,
                                 config_.rope_dim,
                                 config_.value_dim,
                                 config_.kv_lora_rank,
                                 options_.page_tokens,
                                 memory_.page_cells(),
                                 memory_.format()};
  table_.mla(p, workspace(table_.mla_workspace_bytes(p, device_->thread_count())));
  if (config_.mla_output_gate) {
    A* gate = gate_.need(wide_rows * w.gate.rows);
    project(x, w.gate, gate, rows);
    table_.sigmoid_mul({o, gate, wide_rows * w.gate.rows}, plain);
  }
  project(o, w.out, delta_.data(), rows);
}

template <class A>
void kimi_linear<A>::mlp_block(const model::mlp_weights& w, const A* x, std::int32_t rows, A* y) {
  const std::int64_t cells = static_cast<std::int64_t>(rows) * w.gate.rows;
  A* gate = mlp_gate_.need(cells);
  A* up = mlp_up_.need(cells);
  project(x, w.gate, gate, rows);
  project(x, w.up, up, rows);
  unit_mul(gate, up, cells);
  project(gate, w.down, y, rows);
}

template <class A>
void kimi_linear<A>::unit_mul(A* gate, const A* up, std::int64_t count) {
  if (config_.situ.bounded()) {
    table_.situ_mul({gate, up, count, config_.situ}, device_->context());
  } else {
    table_.silu_mul({gate, up, count}, device_->context());
  }
}

// The router's choice from `normed`, the experts' sum over x: of `rows` rows, which with experts divided
// among ranks are this rank's own.
template <class A>
void kimi_linear<A>::routed_experts(const model::moe_weights& w, std::size_t layer, const A* normed,
                                    const A* x, A* y, std::int32_t rows) {
  const std::int64_t all_rows = placed_.rows();
  const std::int64_t chosen = config_.experts_per_token;
  const std::int64_t first = exchange_ ? options_.part.begin_of(placed_.rows()) : 0;
  const expert_lists& lists = expert_lists_[layer];
  A* logits = router_logits_.need(static_cast<std::int64_t>(rows) * config_.experts);
  A* weights = router_weights_.need(all_rows * chosen);
  std::int32_t* ids = router_ids_.data() + lists.index * all_rows * chosen;
  project(normed, w.router, logits, rows);
  table_.router({logits, w.bias.data(), ids + first * chosen, weights + first * chosen, rows, config_.experts,
                 config_.experts_per_token, config_.renormalize, config_.routed_scale},
                device_->context());
  kernels::experts_params<A> p{x, lists.w1, lists.w3, lists.w2, ids, weights, y, rows};
  p.experts = static_cast<std::int32_t>(w.w1.size());
  p.per_token = config_.experts_per_token;
  p.dim = config_.expert_dim();
  p.width = config_.expert_width;
  p.situ = config_.situ;
  if (exchange_) {
    exchange_->run({x, y, ids, weights, placed_.rows(), p, config_.experts_per_token, config_.experts},
                   table_);
  } else {
    table_.experts(p, workspace(table_.experts_workspace_bytes(p, device_->thread_count())));
  }
}

// With experts divided among ranks each computes its own rows, whole; else all rows, and what it has of them
// is summed up: routed and shared experts' parts in one go, before what is not linear.
template <class A>
void kimi_linear<A>::moe_block(const model::moe_weights& w, std::size_t layer) {
  const std::int64_t dim = config_.hidden_size;
  const std::int32_t first = exchange_ ? options_.part.begin_of(placed_.rows()) : 0;
  const std::int32_t rows = exchange_ ? options_.part.end_of(placed_.rows()) - first : placed_.rows();
  const std::int64_t cells = rows * dim;
  const A* x = normed_.data() + first * dim;
  A* y = delta_.data() + first * dim;
  if (config_.routed_width > 0) {
    const std::int64_t narrow_cells = static_cast<std::int64_t>(rows) * config_.routed_width;
    A* in = routed_in_.need(narrow_cells);
    A* out = routed_out_.need(narrow_cells + cells);
    A* shared = out + narrow_cells;
    project(x, w.routed_down, in, rows);
    routed_experts(w, layer, x, in, out, rows);
    if (w.shared) mlp_block(*w.shared, x, rows, shared);
    if (!exchange_) reduce(out, narrow_cells + (w.shared ? cells : 0));
    if (config_.routed_norm) norm_rows(out, w.routed_norm, out, rows);
    project(out, w.routed_up, y, rows);
    if (w.shared) table_.add({y, shared, cells}, device_->context());
  } else {
    routed_experts(w, layer, x, x, y, rows);
    if (w.shared) {
      A* shared = mlp_out_.need(cells);
      mlp_block(*w.shared, x, rows, shared);
      table_.add({y, shared, cells}, device_->context());
    }
    if (!exchange_) reduce(y, cells);
  }
  if (exchange_) exchange_->share_rows(delta_.data(), placed_.rows(), dim);
}

template <class A>
void kimi_linear<A>::head() {
  const std::int32_t rows = placed_.logit_count();
  if (rows == 0) return;
  const std::int32_t dim = config_.hidden_size;
  const A* stream = read_stream(model_->weights.output_mix);
  A* picked = picked_.need(static_cast<std::int64_t>(rows) * dim);
  table_.gather({stream, placed_.logit_rows(), picked, rows, dim}, device_->context());
  norm_rows(picked, model_->weights.norm, picked, rows);
  A* logits = logits_.need(static_cast<std::int64_t>(rows) * config_.vocab_size);
  const kernels::matrix& words = model_->weights.head;
  if (options_.ranks == nullptr) return project(picked, words, logits, rows);
  A* own = own_logits_.need(static_cast<std::int64_t>(rows) * words.rows);
  project(picked, words, own, rows);
  options_.ranks->all_gather(
      own, logits, options_.part.by_rank(config_.vocab_size, static_cast<std::int64_t>(sizeof(A)) * rows));
}

template <class A>
void kimi_linear<A>::note_experts() {
  const bool counts = options_.times != nullptr && !device_->is_host();
  if (config_.experts == 0 || (options_.experts == nullptr && !counts)) return;
  const std::int64_t each = static_cast<std::int64_t>(placed_.rows()) * config_.experts_per_token;
  const std::int32_t* ids = read_back(router_ids_.data(), std::ssize(expert_lists_) * each, ids_copy_);
  for (std::size_t layer = 0; layer < expert_lists_.size(); ++layer) {
    if (expert_lists_[layer].w1.each == nullptr) continue;
    const std::span of(ids + expert_lists_[layer].index * each, static_cast<std::size_t>(each));
    if (options_.experts != nullptr) options_.experts->note(layer, of);
    if (counts) options_.times->experts_read += kernels::count_experts(of, config_.experts);
  }
}

template <class A>
template <class T>
const T* kimi_linear<A>::read_back(const T* from, std::int64_t count, std::vector<T>& copies) const {
  if (device_->is_host()) return from;
  copies.resize(static_cast<std::size_t>(count));
  device_->download(copies.data(), from, copies.size() * sizeof(T));
  return copies.data();
}

// Behind one another lie the ranks' parts, in each the rows.
template <class A>
void kimi_linear<A>::copy_logits(std::int32_t index, std::span<double> out) const {
  assert(out.size() == static_cast<std::size_t>(config_.vocab_size));
  for (int rank = 0; rank < options_.part.size; ++rank) {
    const std::int64_t begin = options_.part.cut(config_.vocab_size, rank);
    const std::int64_t width = options_.part.cut(config_.vocab_size, rank + 1) - begin;
    std::copy_n(host_logits_ + begin * placed_.logit_count() + index * width, width, out.begin() + begin);
  }
}

template <class A>
std::vector<double> kimi_linear<A>::kda_state_norms(std::int32_t slot) const {
  std::vector<double> norms;
  std::vector<A> copies;
  const std::int64_t cells = static_cast<std::int64_t>(config_.kda_channels()) * config_.kda_dim;
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    if (config_.layers[i] != model::layer_kind::kda) continue;
    const A* state = read_back(memory_[i].state + slot * memory_.slab_cells(), cells, copies);
    double squares = 0.0;
    for (std::int64_t c = 0; c < cells; ++c)
      squares += static_cast<double>(state[c]) * static_cast<double>(state[c]);
    norms.push_back(std::sqrt(squares));
  }
  return norms;
}

template class kimi_linear<double>;
template class kimi_linear<float>;

}  // namespace weir::engine::runner
