// Visits every matrix and every vector of a model's weights, absent ones included (null, empty), in the order
// of the layers. Pure; any thread.
#pragma once

#include <type_traits>

#include "engine/model/weights.hpp"

namespace weir::engine::model {

namespace each {

template <class Layer, class Matrix, class Vector>
void attention(Layer& layer, Matrix&& on_matrix, Vector&& on_vector) {
  if (layer.kda) {
    auto& w = *layer.kda;
    for (auto* m : {&w.q, &w.k, &w.v, &w.decay_a, &w.decay_b, &w.gate_a, &w.gate, &w.beta, &w.out})
      on_matrix(*m);
    for (auto* v : {&w.q_conv, &w.k_conv, &w.v_conv, &w.a_log, &w.dt_bias, &w.norm}) on_vector(*v);
  }
  if (layer.mla) {
    auto& w = *layer.mla;
    for (auto* m : {&w.q, &w.q_a, &w.kv_a, &w.kv_b, &w.gate, &w.out}) on_matrix(*m);
    for (auto* v : {&w.q_a_norm, &w.kv_norm}) on_vector(*v);
  }
}

template <class Mlp, class Matrix>
void mlp(Mlp& w, Matrix&& on_matrix) {
  for (auto* m : {&w.gate, &w.up, &w.down}) on_matrix(*m);
}

template <class Layer, class Matrix, class Vector>
void feed_forward(Layer& layer, Matrix&& on_matrix, Vector&& on_vector) {
  if (layer.dense) mlp(*layer.dense, on_matrix);
  if (!layer.moe) return;
  auto& w = *layer.moe;
  for (auto* m : {&w.router, &w.routed_down, &w.routed_up}) on_matrix(*m);
  for (auto* v : {&w.bias, &w.routed_norm}) on_vector(*v);
  for (auto* list : {&w.w1, &w.w3, &w.w2}) {
    for (auto& m : *list) on_matrix(m);
  }
  if (w.shared) mlp(*w.shared, on_matrix);
}

template <class Mix, class Vector>
void mix(Mix& w, Vector&& on_vector) {
  if (!w) return;
  on_vector(w->norm);
  on_vector(w->proj);
}

}  // namespace each

// `Weights` is model_weights, const or not; the callables get matrix& and floats& of the same constness.
template <class Weights, class Matrix, class Vector>
requires std::is_same_v<std::remove_const_t<Weights>, model_weights>
void each_weight(Weights& weights, Matrix&& on_matrix, Vector&& on_vector) {
  on_matrix(weights.embedding);
  on_matrix(weights.head);
  on_vector(weights.norm);
  each::mix(weights.output_mix, on_vector);
  for (auto& layer : weights.layers) {
    on_vector(layer.input_norm);
    on_vector(layer.post_norm);
    each::mix(layer.attention_mix, on_vector);
    each::mix(layer.mlp_mix, on_vector);
    each::attention(layer, on_matrix, on_vector);
    each::feed_forward(layer, on_matrix, on_vector);
  }
}

}  // namespace weir::engine::model
