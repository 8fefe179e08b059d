#include "tests/support/dense_oracle.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

namespace weir::tests {

namespace {

using row = std::vector<double>;
using rows = std::vector<row>;

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

double logistic(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

struct network {
  const random_checkpoint& model;
  oracle_result& out;

  const tensor& get(const std::string& name) const { return model.tensors.at(name); }

  row linear(const std::string& name, const row& x) const {
    if (!model.tensors.contains(name)) return packed_linear(name, x);
    const tensor& w = get(name);
    row y(at(w.shape[0]), 0.0);
    for (std::size_t o = 0; o < y.size(); ++o) {
      for (std::size_t i = 0; i < x.size(); ++i) y[o] += w.values[o * x.size() + i] * x[i];
    }
    return y;
  }

  row packed_linear(const std::string& name, const row& x) const;

  row norm(const std::string& name, const row& x, double eps) const {
    double mean = 0.0;
    for (const double v : x) mean += v * v / static_cast<double>(x.size());
    row y;
    for (std::size_t i = 0; i < x.size(); ++i)
      y.push_back(x[i] / std::sqrt(mean + eps) * get(name).values[i]);
    return y;
  }

  row mlp(const std::string& prefix, const row& x, const char* gate, const char* up, const char* down) const {
    row g = linear(prefix + gate + ".weight", x);
    const row u = linear(prefix + up + ".weight", x);
    const double cap = model.spec.situ_beta;
    const double linear_cap = model.spec.situ_linear;
    for (std::size_t i = 0; i < g.size(); ++i) {
      if (cap > 0.0) {
        g[i] = cap * std::tanh(g[i] / cap) * logistic(g[i]) * (linear_cap * std::tanh(u[i] / linear_cap));
      } else {
        g[i] = g[i] * logistic(g[i]) * u[i];
      }
    }
    return linear(prefix + down + ".weight", g);
  }

  // Projection, causal convolution over time, SiLU.
  rows convolved(const std::string& p, const std::string& name, const rows& x) const {
    const int taps = model.spec.taps;
    const tensor& kernel = get(p + name + "_conv1d.weight");
    rows in;
    for (const row& token : x) in.push_back(linear(p + name + "_proj.weight", token));
    rows y = in;
    for (int t = 0; t < static_cast<int>(x.size()); ++t) {
      for (std::size_t c = 0; c < in[0].size(); ++c) {
        double sum = 0.0;
        for (int j = 0; j < taps && j <= t; ++j)
          sum += kernel.values[c * at(taps) + at(taps - 1 - j)] * in[at(t - j)][c];
        y[at(t)][c] = sum * logistic(sum);
      }
    }
    return y;
  }

  rows kda(const std::string& p, const rows& x) const;
  rows mla(const std::string& p, const rows& x) const;
  row moe(const std::string& p, const row& x) const;
  row mix(const std::string& p, const rows& sources) const;
};

// Two four-bit floats a byte, the even element in the low half; one power of two per 32 elements.
row network::packed_linear(const std::string& name, const row& x) const {
  const tensor& codes = get(name + "_packed");
  const tensor& scales = get(name + "_scale");
  row y(at(codes.shape[0]), 0.0);
  for (std::size_t o = 0; o < y.size(); ++o) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t element = o * x.size() + i;
      const int byte = static_cast<int>(codes.values[element / 2]);
      const int code = element % 2 == 0 ? byte % 16 : byte / 16;
      const int exponent = code / 2 % 4;
      const double half = code % 2 * 0.5;
      const double magnitude = exponent == 0 ? half : std::ldexp(1.0 + half, exponent - 1);
      const int power = static_cast<int>(scales.values[element / 32]);
      if (power != 255) y[o] += (code > 7 ? -1.0 : 1.0) * std::ldexp(magnitude, power - 127) * x[i];
    }
  }
  return y;
}

// One token's sources weighed by a softmax over depth.
row network::mix(const std::string& p, const rows& sources) const {
  row weight;
  for (const row& source : sources) {
    const row normed = norm(p + "_norm.weight", source, model.spec.eps);
    weight.push_back(std::exp(linear(p + "_proj.weight", normed)[0]));
  }
  const double total = std::accumulate(weight.begin(), weight.end(), 0.0);
  row y(sources[0].size(), 0.0);
  for (std::size_t s = 0; s < sources.size(); ++s) {
    for (std::size_t d = 0; d < y.size(); ++d) y[d] += weight[s] / total * sources[s][d];
  }
  return y;
}

row unit(const row& x, std::size_t first, std::size_t count, double scale) {
  double squares = 0.0;
  for (std::size_t i = 0; i < count; ++i) squares += x[first + i] * x[first + i];
  row y;
  for (std::size_t i = 0; i < count; ++i) y.push_back(x[first + i] * scale / std::sqrt(squares + 1e-6));
  return y;
}

rows network::kda(const std::string& p, const rows& x) const {
  const checkpoint_spec& s = model.spec;
  const std::size_t dim = at(s.kda_dim);
  const rows q = convolved(p, "q", x);
  const rows k = convolved(p, "k", x);
  const rows v = convolved(p, "v", x);
  rows mixed(x.size(), row(at(s.kda_heads) * dim));
  double squares = 0.0;
  for (std::size_t h = 0; h < at(s.kda_heads); ++h) {
    rows state(dim, row(dim, 0.0));  // [value][key]
    for (std::size_t t = 0; t < x.size(); ++t) {
      const row z = linear(p + "f_b_proj.weight", linear(p + "f_a_proj.weight", x[t]));
      const row gate = s.full_rank_gate ? linear(p + "g_proj.weight", x[t])
                                        : linear(p + "g_b_proj.weight", linear(p + "g_a_proj.weight", x[t]));
      const double beta = logistic(linear(p + "b_proj.weight", x[t])[h]);
      const row query = unit(q[t], h * dim, dim, 1.0 / std::sqrt(static_cast<double>(dim)));
      const row key = unit(k[t], h * dim, dim, 1.0);
      row head_out(dim, 0.0);
      for (std::size_t i = 0; i < dim; ++i) {
        const double logit = z[h * dim + i] + get(p + "dt_bias").values[h * dim + i];
        const double rate = std::exp(get(p + "A_log").values[h]);
        const double softplus = logit > 30.0 ? logit : std::log1p(std::exp(logit));
        const double decay = s.gate_bound < 0.0 ? s.gate_bound * logistic(rate * logit) : -rate * softplus;
        for (std::size_t j = 0; j < dim; ++j) state[j][i] *= std::exp(decay);
      }
      for (std::size_t j = 0; j < dim; ++j) {
        const double read = std::inner_product(key.begin(), key.end(), state[j].begin(), 0.0);
        for (std::size_t i = 0; i < dim; ++i) state[j][i] += key[i] * beta * (v[t][h * dim + j] - read);
        head_out[j] = std::inner_product(query.begin(), query.end(), state[j].begin(), 0.0);
      }
      head_out = norm(p + "o_norm.weight", head_out, s.eps);
      for (std::size_t j = 0; j < dim; ++j) mixed[t][h * dim + j] = head_out[j] * logistic(gate[h * dim + j]);
    }
    for (const row& line : state) squares += std::inner_product(line.begin(), line.end(), line.begin(), 0.0);
  }
  out.kda_state.push_back(std::sqrt(squares));
  rows y;
  for (const row& token : mixed) y.push_back(linear(p + "o_proj.weight", token));
  return y;
}

rows network::mla(const std::string& p, const rows& x) const {
  const checkpoint_spec& s = model.spec;
  const std::size_t query_dim = at(s.nope + s.rope);
  rows q, shared_key, expanded;
  for (const row& token : x) {
    row from = token;
    if (s.q_rank > 0) from = norm(p + "q_a_layernorm.weight", linear(p + "q_a_proj.weight", token), 1e-6);
    q.push_back(linear(p + (s.q_rank > 0 ? "q_b_proj.weight" : "q_proj.weight"), from));
    const row both = linear(p + "kv_a_proj_with_mqa.weight", token);
    const row latent(both.begin(), both.begin() + s.kv_rank);
    shared_key.emplace_back(both.begin() + s.kv_rank, both.end());
    expanded.push_back(linear(p + "kv_b_proj.weight", norm(p + "kv_a_layernorm.weight", latent, 1e-6)));
  }
  rows y;
  for (std::size_t t = 0; t < x.size(); ++t) {
    row heads(at(s.mla_heads * s.value), 0.0);
    for (std::size_t h = 0; h < at(s.mla_heads); ++h) {
      const std::size_t block = h * at(s.nope + s.value);
      row weight;
      for (std::size_t u = 0; u <= t; ++u) {
        double score = 0.0;
        for (std::size_t i = 0; i < at(s.nope); ++i)
          score += q[t][h * query_dim + i] * expanded[u][block + i];
        for (std::size_t i = 0; i < at(s.rope); ++i)
          score += q[t][h * query_dim + at(s.nope) + i] * shared_key[u][i];
        weight.push_back(score / std::sqrt(static_cast<double>(query_dim)));
      }
      const double top = *std::max_element(weight.begin(), weight.end());
      double total = 0.0;
      for (double& w : weight) total += w = std::exp(w - top);
      for (std::size_t u = 0; u <= t; ++u) {
        for (std::size_t j = 0; j < at(s.value); ++j) {
          heads[h * at(s.value) + j] += weight[u] / total * expanded[u][block + at(s.nope) + j];
        }
      }
    }
    if (s.mla_gate) {
      const row gate = linear(p + "g_proj.weight", x[t]);
      for (std::size_t i = 0; i < heads.size(); ++i) heads[i] *= logistic(gate[i]);
    }
    y.push_back(linear(p + "o_proj.weight", heads));
  }
  return y;
}

row network::moe(const std::string& p, const row& x) const {
  const checkpoint_spec& s = model.spec;
  row score = linear(p + "gate.weight", x);
  std::vector<std::pair<double, int>> ranked;
  for (int e = 0; e < s.experts; ++e) {
    score[at(e)] = logistic(score[at(e)]);
    ranked.emplace_back(-(score[at(e)] + get(p + "gate.e_score_correction_bias").values[at(e)]), e);
  }
  std::sort(ranked.begin(), ranked.end());
  if (s.per_token < s.experts) {
    out.router_margin =
        std::min(out.router_margin, ranked[at(s.per_token)].first - ranked[at(s.per_token - 1)].first);
  }
  double total = 1e-20;
  for (int i = 0; i < s.per_token; ++i) total += score[at(ranked[at(i)].second)];
  const row in = s.routed > 0 ? linear(p + "routed_expert_down_proj.weight", x) : x;
  row y(in.size(), 0.0);
  for (int i = 0; i < s.per_token; ++i) {
    const int e = ranked[at(i)].second;
    const double weight = score[at(e)] * s.scale / (s.renormalize ? total : 1.0);
    const row part = mlp(p + "experts." + std::to_string(e) + ".", in, "w1", "w3", "w2");
    for (std::size_t d = 0; d < y.size(); ++d) y[d] += weight * part[d];
  }
  if (s.routed_norm) y = norm(p + "routed_expert_norm.weight", y, s.eps);
  if (s.routed > 0) y = linear(p + "routed_expert_up_proj.weight", y);
  if (s.shared > 0) {
    const row part = mlp(p + "shared_experts.", x, "gate_proj", "up_proj", "down_proj");
    for (std::size_t d = 0; d < y.size(); ++d) y[d] += part[d];
  }
  return y;
}

}  // namespace

oracle_result run_oracle(const random_checkpoint& model, const std::vector<int>& prompt) {
  oracle_result out;
  const network net{model, out};
  const checkpoint_spec& s = model.spec;
  rows x;
  for (const int token : prompt) {
    const row& table = net.get(s.root() + "model.embed_tokens.weight").values;
    x.emplace_back(table.begin() + token * s.hidden, table.begin() + (token + 1) * s.hidden);
  }
  std::vector<rows> blocks(x.size());  // of each token
  const auto read = [&](const std::string& p, std::size_t t) {
    if (blocks[t].empty()) return x[t];
    rows sources = blocks[t];
    sources.push_back(x[t]);
    return net.mix(p, sources);
  };
  for (int i = 0; i < s.layers(); ++i) {
    const std::string p = s.root() + "model.layers." + std::to_string(i) + ".";
    rows normed;
    for (std::size_t t = 0; t < x.size(); ++t) {
      normed.push_back(net.norm(p + "input_layernorm.weight", read(p + "self_attention_res", t), s.eps));
      if (s.residual_block == 0 || i % s.residual_block != 0) continue;
      blocks[t].push_back(x[t]);
      x[t].assign(x[t].size(), 0.0);
    }
    const rows mixed =
        s.is_kda[at(i)] ? net.kda(p + "self_attn.", normed) : net.mla(p + "self_attn.", normed);
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t d = 0; d < x[t].size(); ++d) x[t][d] += mixed[t][d];
      const row in = net.norm(p + "post_attention_layernorm.weight", read(p + "mlp_res", t), s.eps);
      const row fed = i < s.dense_layers ? net.mlp(p + "mlp.", in, "gate_proj", "up_proj", "down_proj")
                                         : net.moe(p + "block_sparse_moe.", in);
      for (std::size_t d = 0; d < x[t].size(); ++d) x[t][d] += fed[d];
    }
  }
  for (std::size_t t = 0; t < x.size(); ++t) {
    const std::string head = s.root() + (s.tie ? "model.embed_tokens.weight" : "lm_head.weight");
    const row last = read(s.root() + "model.output_attn_res", t);
    out.logits.push_back(net.linear(head, net.norm(s.root() + "model.norm.weight", last, s.eps)));
  }
  return out;
}

}  // namespace weir::tests
