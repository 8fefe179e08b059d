// Random checkpoints in the published Kimi-Linear and Kimi K3 layouts, for tests: config.json and one or many
// safetensors files, with the values as stored kept in double for an independent computation. Deterministic
// in the seed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace weir::tests {

struct tensor {
  std::vector<int> shape;
  std::vector<double> values;  // exactly what the file holds
  std::string dtype;           // F32, BF16, F16 or U8
};

struct checkpoint_spec {
  int hidden = 32, vocab = 64, context = 256;
  int mla_heads = 2, q_rank = 0, kv_rank = 16, nope = 16, rope = 8, value = 16;
  int kda_heads = 2, kda_dim = 16, taps = 4;
  int dense_width = 48, dense_layers = 1;
  int experts = 4, per_token = 2, shared = 1, expert_width = 24;
  bool renormalize = true, tie = false, padded_a_log = false;
  double scale = 2.446, eps = 1e-5;
  std::vector<bool> is_kda{true, false};  // [layers]
  int shards = 1;

  // What Kimi K3 adds, each for itself.
  bool nested = false;  // text_config, and "language_model." before every name
  bool full_rank_gate = false, mla_gate = false, packed = false, routed_norm = false;
  double gate_bound = 0.0;                    // below 0
  double situ_beta = 0.0, situ_linear = 0.0;  // 0: silu
  int routed = 0;                             // width of what routed experts see; 0: hidden
  int residual_block = 0;                     // layers

  std::string root() const { return nested ? "language_model." : ""; }
  int expert_dim() const { return routed > 0 ? routed : hidden; }
  int layers() const { return static_cast<int>(is_kda.size()); }
};

struct random_checkpoint {
  checkpoint_spec spec;
  std::map<std::string, tensor> tensors;  // by published name
};

// Any layer list, head dims 16..128 (mostly no powers of two), 1..8 shared experts, 1..4 shards; any mixture
// of what Kimi K3 adds, mostly.
checkpoint_spec random_spec(std::mt19937_64& random);

// Everything that Kimi K3 has, small.
checkpoint_spec k3_spec();

random_checkpoint make_checkpoint(const checkpoint_spec& spec, std::uint64_t seed);

std::string config_json(const checkpoint_spec& spec);

// A safetensors file of these tensors, in order.
std::string safetensors_bytes(const std::map<std::string, tensor>& tensors);

void write_checkpoint(const random_checkpoint& model, const std::filesystem::path& dir);

void write_file(const std::filesystem::path& path, const std::string& bytes);

// A fresh folder under the system's temporary one, removed with everything in it at the end of the scope.
class temporary_dir final {
 public:
  temporary_dir();
  ~temporary_dir();
  temporary_dir(const temporary_dir&) = delete;
  temporary_dir& operator=(const temporary_dir&) = delete;
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace weir::tests
