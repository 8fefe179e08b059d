#include "tests/support/random_checkpoint.hpp"

#include <stdlib.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace weir::tests {

namespace {

int between(std::mt19937_64& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<std::uint64_t>(high - low + 1));
}

double gaussian(std::mt19937_64& random) {
  const auto unit = [&random] { return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53; };
  return std::sqrt(-2.0 * std::log(unit())) * std::cos(6.283185307179586 * unit());
}

// Rounds to the format's grid by way of its mantissa length; values here are far from its limits.
double round_to(double value, int mantissa_bits) {
  if (value == 0.0) return 0.0;
  int exponent = 0;
  std::frexp(value, &exponent);
  const double step = std::ldexp(1.0, exponent - mantissa_bits);
  return std::nearbyint(value / step) * step;
}

std::string encode(double value, const std::string& dtype) {
  char bytes[4];
  if (dtype == "U8" || dtype == "I8" || dtype == "F8_E8M0")
    return {static_cast<char>(static_cast<unsigned char>(value))};
  if (dtype == "F32" || dtype == "I32") {  // an integer tensor is only ever refused: its bits do not matter
    const auto single = static_cast<float>(value);
    std::memcpy(bytes, &single, 4);
    return {bytes, 4};
  }
  std::uint16_t bits = 0;
  if (dtype == "BF16") {
    bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16);
  } else {
    int exponent = 0;
    const double fraction = std::frexp(std::fabs(value), &exponent);  // in [0.5, 1)
    if (value != 0.0) {
      bits = static_cast<std::uint16_t>((exponent + 14) << 10 |
                                        static_cast<int>((fraction * 2.0 - 1.0) * 1024.0));
    }
    if (value < 0.0) bits = static_cast<std::uint16_t>(bits | 0x8000U);
  }
  std::memcpy(bytes, &bits, 2);
  return {bytes, 2};
}

class builder final {
 public:
  builder(random_checkpoint& out, std::uint64_t seed) : out_(out), random_(seed) {}

  void matrix(const std::string& name, int rows, int cols) { matrix(name, rows, cols, half()); }
  void matrix(const std::string& name, int rows, int cols, const std::string& dtype) {
    fill(name, {rows, cols}, dtype, 0.0, 1.0 / std::sqrt(cols));
  }
  void norm(const std::string& name, int size) { fill(name, {size}, half(), 1.0, 0.2); }

  void fill(const std::string& name, std::vector<int> shape, const std::string& dtype, double mean,
            double spread) {
    tensor t{std::move(shape), {}, dtype};
    std::size_t count = 1;
    for (const int dim : t.shape) count *= static_cast<std::size_t>(dim);
    const int bits = dtype == "F32" ? 24 : dtype == "BF16" ? 8 : 11;
    for (std::size_t i = 0; i < count; ++i) {
      double value = round_to(mean + spread * gaussian(random_), bits);
      if (dtype == "F16" && std::fabs(value) < 0x1p-14) value = 0.0;  // the encoder writes no subnormals
      t.values.push_back(value);
    }
    out_.tensors[name] = std::move(t);
  }

  // MXFP4: any codes; scales that make the values about as large as a matrix's, some groups empty by way of
  // NaN.
  void packed(const std::string& name, int rows, int cols) {
    tensor codes{{rows, cols / 2}, {}, "U8"};
    tensor scales{{rows, cols / 32}, {}, "U8"};
    for (int i = 0; i < rows * cols / 2; ++i) codes.values.push_back(static_cast<double>(random_() & 255U));
    for (int i = 0; i < rows * cols / 32; ++i)
      scales.values.push_back(random_() % 16 == 0 ? 255.0 : between(random_, 121, 124));
    out_.tensors[name + ".weight_packed"] = std::move(codes);
    out_.tensors[name + ".weight_scale"] = std::move(scales);
  }

  std::string half() { return (random_() & 3U) == 0 ? "F16" : "BF16"; }

 private:
  random_checkpoint& out_;
  std::mt19937_64 random_;
};

void add_kda(builder& b, const checkpoint_spec& s, const std::string& p) {
  const int channels = s.kda_heads * s.kda_dim;
  for (const std::string name : {"q", "k", "v"}) {
    b.matrix(p + name + "_proj.weight", channels, s.hidden);
    b.fill(p + name + "_conv1d.weight", {channels, 1, s.taps}, b.half(), 0.0, 0.5);
  }
  b.matrix(p + "f_a_proj.weight", s.kda_dim, s.hidden);
  b.matrix(p + "f_b_proj.weight", channels, s.kda_dim);
  if (s.full_rank_gate) {
    b.matrix(p + "g_proj.weight", channels, s.hidden);
  } else {
    b.matrix(p + "g_a_proj.weight", s.kda_dim, s.hidden);
    b.matrix(p + "g_b_proj.weight", channels, s.kda_dim);
  }
  b.matrix(p + "b_proj.weight", s.kda_heads, s.hidden);
  if (s.padded_a_log) {
    b.fill(p + "A_log", {s.kda_heads + 5}, "F32", 0.5, 0.7);
  } else {
    b.fill(p + "A_log", {1, 1, s.kda_heads, 1}, "F32", 0.5, 0.7);
  }
  b.fill(p + "dt_bias", {channels}, "F32", -3.0, 1.5);
  b.norm(p + "o_norm.weight", s.kda_dim);
  b.matrix(p + "o_proj.weight", s.hidden, channels);
}

void add_mla(builder& b, const checkpoint_spec& s, const std::string& p) {
  const int query = s.mla_heads * (s.nope + s.rope);
  if (s.q_rank > 0) {
    b.matrix(p + "q_a_proj.weight", s.q_rank, s.hidden);
    b.norm(p + "q_a_layernorm.weight", s.q_rank);
    b.matrix(p + "q_b_proj.weight", query, s.q_rank);
  } else {
    b.matrix(p + "q_proj.weight", query, s.hidden);
  }
  b.matrix(p + "kv_a_proj_with_mqa.weight", s.kv_rank + s.rope, s.hidden);
  b.norm(p + "kv_a_layernorm.weight", s.kv_rank);
  b.matrix(p + "kv_b_proj.weight", s.mla_heads * (s.nope + s.value), s.kv_rank);
  if (s.mla_gate) b.matrix(p + "g_proj.weight", s.mla_heads * s.value, s.hidden);
  b.matrix(p + "o_proj.weight", s.hidden, s.mla_heads * s.value);
}

void add_mlp(builder& b, const std::string& p, int hidden, int width) {
  b.matrix(p + "gate_proj.weight", width, hidden);
  b.matrix(p + "up_proj.weight", width, hidden);
  b.matrix(p + "down_proj.weight", hidden, width);
}

void add_moe(builder& b, const checkpoint_spec& s, const std::string& p) {
  b.matrix(p + "gate.weight", s.experts, s.hidden);
  b.fill(p + "gate.e_score_correction_bias", {s.experts}, "F32", 0.0, 0.1);
  const auto add = [&b, &s](const std::string& name, int rows, int cols, const std::string& dtype) {
    if (s.packed) {
      b.packed(name, rows, cols);
    } else {
      b.matrix(name + ".weight", rows, cols, dtype);
    }
  };
  const std::string in = b.half();
  const std::string out = b.half();
  for (int e = 0; e < s.experts; ++e) {
    const std::string expert = p + "experts." + std::to_string(e) + ".";
    add(expert + "w1", s.expert_width, s.expert_dim(), in);
    add(expert + "w3", s.expert_width, s.expert_dim(), in);
    add(expert + "w2", s.expert_dim(), s.expert_width, out);
  }
  if (s.routed > 0) {
    b.matrix(p + "routed_expert_down_proj.weight", s.routed, s.hidden);
    b.matrix(p + "routed_expert_up_proj.weight", s.hidden, s.routed);
    if (s.routed_norm) b.norm(p + "routed_expert_norm.weight", s.routed);
  }
  if (s.shared > 0) add_mlp(b, p + "shared_experts.", s.hidden, s.expert_width * s.shared);
}

void add_mix(builder& b, const std::string& p, int hidden) {
  b.norm(p + "_norm.weight", hidden);
  b.matrix(p + "_proj.weight", 1, hidden);
}

}  // namespace

namespace {

void add_features(checkpoint_spec& s, std::mt19937_64& random) {
  const auto coin = [&random] { return between(random, 0, 1) == 1; };
  s.nested = coin();
  s.full_rank_gate = coin();
  s.mla_gate = coin();
  if (coin()) s.gate_bound = -0.5 * between(random, 1, 12);
  if (coin()) {
    s.situ_beta = between(random, 1, 6);
    s.situ_linear = between(random, 2, 30);
  }
  if (coin()) {
    s.routed = between(random, 9, 60);
    s.routed_norm = coin();
  }
  if (coin()) {
    s.packed = true;
    s.expert_width = 32 * between(random, 1, 2);
    if (s.routed > 0) s.routed = 32 * between(random, 1, 3);
    if (s.routed == 0) s.hidden = 32 * between(random, 1, 2);
  }
  if (coin()) s.residual_block = between(random, 1, 4);
}

}  // namespace

checkpoint_spec random_spec(std::mt19937_64& random) {
  checkpoint_spec s;
  s.hidden = between(random, 20, 72);
  s.vocab = between(random, 40, 120);
  s.mla_heads = between(random, 1, 4);
  s.q_rank = between(random, 0, 2) == 0 ? between(random, 12, 40) : 0;
  s.kv_rank = between(random, 16, 70);
  s.nope = between(random, 16, 128);
  s.rope = between(random, 0, 64);
  s.value = between(random, 16, 128);
  s.kda_heads = between(random, 1, 3);
  s.kda_dim = between(random, 16, 128);
  s.taps = between(random, 1, 5);
  s.is_kda.clear();
  for (int i = between(random, 1, 5); i > 0; --i) s.is_kda.push_back(between(random, 0, 2) != 0);
  s.dense_width = between(random, 20, 90);
  s.dense_layers = between(random, 0, s.layers());
  s.experts = between(random, 1, 9);
  s.per_token = between(random, 1, std::min(s.experts, 4));
  s.shared = between(random, 1, 8);
  s.expert_width = between(random, 10, 40);
  s.renormalize = between(random, 0, 3) != 0;
  s.tie = between(random, 0, 3) == 0;
  s.padded_a_log = between(random, 0, 3) == 0;
  s.scale = 0.5 + between(random, 0, 20) * 0.1;
  s.shards = between(random, 1, 4);
  if (between(random, 0, 3) != 0) add_features(s, random);
  return s;
}

checkpoint_spec k3_spec() {
  checkpoint_spec s;
  s.nested = s.full_rank_gate = s.mla_gate = s.packed = s.routed_norm = s.padded_a_log = true;
  s.q_rank = 12;
  s.shared = 2;
  s.scale = 1.0;
  s.gate_bound = -5.0;
  s.situ_beta = 4.0;
  s.situ_linear = 25.0;
  s.routed = s.expert_width = 32;
  s.residual_block = 3;
  s.is_kda = {true, true, true, false, true, false, false};
  return s;
}

random_checkpoint make_checkpoint(const checkpoint_spec& spec, std::uint64_t seed) {
  random_checkpoint out{spec, {}};
  builder b(out, seed);
  const std::string root = spec.root();
  b.fill(root + "model.embed_tokens.weight", {spec.vocab, spec.hidden}, "BF16", 0.0, 1.0);
  if (!spec.tie) b.matrix(root + "lm_head.weight", spec.vocab, spec.hidden);
  b.norm(root + "model.norm.weight", spec.hidden);
  if (spec.residual_block > 0) add_mix(b, root + "model.output_attn_res", spec.hidden);
  for (int i = 0; i < spec.layers(); ++i) {
    const std::string p = root + "model.layers." + std::to_string(i) + ".";
    if (spec.residual_block > 0) {
      if (i > 0) add_mix(b, p + "self_attention_res", spec.hidden);
      add_mix(b, p + "mlp_res", spec.hidden);
    }
    b.norm(p + "input_layernorm.weight", spec.hidden);
    b.norm(p + "post_attention_layernorm.weight", spec.hidden);
    if (spec.is_kda[static_cast<std::size_t>(i)]) {
      add_kda(b, spec, p + "self_attn.");
    } else {
      add_mla(b, spec, p + "self_attn.");
    }
    if (i < spec.dense_layers) {
      add_mlp(b, p + "mlp.", spec.hidden, spec.dense_width);
    } else {
      add_moe(b, spec, p + "block_sparse_moe.");
    }
  }
  return out;
}

std::string safetensors_bytes(const std::map<std::string, tensor>& tensors) {
  std::string header = "{\"__metadata__\":{\"format\":\"pt\"}";
  std::string data;
  for (const auto& [name, t] : tensors) {
    const std::size_t begin = data.size();
    for (const double value : t.values) data += encode(value, t.dtype);
    std::string shape;
    for (const int dim : t.shape) shape += (shape.empty() ? "" : ",") + std::to_string(dim);
    header += ",\"" + name + "\":{\"dtype\":\"" + t.dtype + "\",\"shape\":[" + shape +
              "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(data.size()) + "]}";
  }
  header += "}";
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i) & 0xFFU);
  return length + header + data;
}

void write_checkpoint(const random_checkpoint& model, const std::filesystem::path& dir) {
  write_file(dir / "config.json", config_json(model.spec));
  if (model.spec.shards == 1) {
    write_file(dir / "model.safetensors", safetensors_bytes(model.tensors));
    return;
  }
  std::vector<std::map<std::string, tensor>> parts(static_cast<std::size_t>(model.spec.shards));
  std::string map;
  std::size_t next = 0;
  const auto shard_name = [&model](std::size_t part) {
    return "model-" + std::to_string(part + 1) + "-of-" + std::to_string(model.spec.shards) + ".safetensors";
  };
  for (const auto& [name, t] : model.tensors) {
    const std::size_t part = next++ % parts.size();
    parts[part][name] = t;
    map += (map.empty() ? "\"" : ",\"") + name + "\":\"" + shard_name(part) + "\"";
  }
  for (std::size_t i = 0; i < parts.size(); ++i) write_file(dir / shard_name(i), safetensors_bytes(parts[i]));
  write_file(dir / "model.safetensors.index.json", "{\"metadata\":{},\"weight_map\":{" + map + "}}");
}

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

temporary_dir::temporary_dir() {
  std::string pattern = (std::filesystem::temp_directory_path() / "weir-test-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot create " + pattern);
  path_ = pattern;
}

temporary_dir::~temporary_dir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace weir::tests
