#include <algorithm>

#include "kernels/ref/ops.hpp"

namespace weir::kernels::ref {

namespace {

// Input `back` tokens before row `token` of the range: from the batch, else from the state.
double conv_input(const short_conv_params<double>& p, const sequence_range& seq, std::int32_t token,
                  std::int32_t back, std::int32_t channel) {
  const std::int64_t channels = p.channels;
  if (back <= token) return p.x[(seq.row + token - back) * channels + channel];
  if (seq.position == 0) return 0.0;
  const std::int64_t tail_row = (p.taps - 1) - (back - token);
  return p.state[seq.slot * p.slot_stride + tail_row * channels + channel];
}

void update_conv_state(const short_conv_params<double>& p, const sequence_range& seq) {
  const std::int32_t depth = p.taps - 1;
  for (std::int32_t channel = 0; channel < p.channels; ++channel) {
    double last[k_conv_taps_max];
    // The input that is `depth - i - 1` before the range's last one.
    for (std::int32_t i = 0; i < depth; ++i)
      last[i] = conv_input(p, seq, seq.count - 1, depth - 1 - i, channel);
    for (std::int32_t i = 0; i < depth; ++i) {
      p.state[seq.slot * p.slot_stride + static_cast<std::int64_t>(i) * p.channels + channel] = last[i];
    }
  }
}

void kda_token(const kda_params<double>& p, double* state, std::int64_t row, std::int32_t head) {
  const std::int32_t dim = p.dim;
  const std::int64_t at_head = (row * p.heads + head) * dim;
  const double* q = p.q + at_head;
  const double* k = p.k + at_head;
  const double* v = p.v + at_head;
  const double* g = p.g + at_head;
  const double beta = p.beta[row * p.heads + head];
  for (std::int32_t i = 0; i < dim; ++i) {
    const double decay = std::exp(g[i]);
    for (std::int32_t j = 0; j < dim; ++j) state[i * dim + j] *= decay;
  }
  for (std::int32_t j = 0; j < dim; ++j) {
    double read = 0.0;
    for (std::int32_t i = 0; i < dim; ++i) read += state[i * dim + j] * k[i];
    const double update = beta * (v[j] - read);
    double out = 0.0;
    for (std::int32_t i = 0; i < dim; ++i) {
      state[i * dim + j] += k[i] * update;
      out += state[i * dim + j] * q[i];
    }
    p.o[at_head + j] = out;
  }
}

}  // namespace

void short_conv(const short_conv_params<double>& p, const context&) {
  for (std::int32_t s = 0; s < p.batch.sequence_count; ++s) {
    const sequence_range& seq = p.batch.sequences[s];
    for (std::int32_t token = 0; token < seq.count; ++token) {
      for (std::int32_t channel = 0; channel < p.channels; ++channel) {
        double sum = 0.0;
        for (std::int32_t tap = 0; tap < p.taps; ++tap) {
          const double weight = static_cast<double>(p.weight[tap * p.channels + channel]);
          sum += weight * conv_input(p, seq, token, p.taps - 1 - tap, channel);
        }
        p.y[(seq.row + token) * static_cast<std::int64_t>(p.channels) + channel] = silu(sum);
      }
    }
    update_conv_state(p, seq);
  }
}

void kda_gate(const kda_gate_params<double>& p, const context&) {
  for (std::int64_t row = 0; row < p.rows; ++row) {
    for (std::int32_t head = 0; head < p.heads; ++head) {
      const double rate = std::exp(static_cast<double>(p.a_log[head]));
      double* g = p.g + (row * p.heads + head) * p.dim;
      for (std::int32_t i = 0; i < p.dim; ++i) {
        const double z = g[i] + static_cast<double>(p.dt_bias[head * p.dim + i]);
        g[i] = p.lower_bound < 0.0 ? p.lower_bound * sigmoid(rate * z) : -rate * softplus(z);
      }
      double& beta = p.beta[row * p.heads + head];
      beta = sigmoid(beta);
    }
  }
}

void kda(const kda_params<double>& p, const context&) {
  for (std::int32_t s = 0; s < p.batch.sequence_count; ++s) {
    const sequence_range& seq = p.batch.sequences[s];
    for (std::int32_t head = 0; head < p.heads; ++head) {
      const std::int64_t square = static_cast<std::int64_t>(p.dim) * p.dim;
      double* state = p.state + seq.slot * p.slot_stride + head * square;
      if (seq.position == 0) std::fill_n(state, square, 0.0);
      for (std::int32_t token = 0; token < seq.count; ++token) kda_token(p, state, seq.row + token, head);
    }
  }
}

}  // namespace weir::kernels::ref
