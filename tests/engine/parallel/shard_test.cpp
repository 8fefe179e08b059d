// A rank's matrices against plain indexing into the whole ones, and what cannot be divided.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/model/checkpoint.hpp"
#include "engine/model/narrow_weights.hpp"
#include "engine/parallel/shard.hpp"
#include "tests/support/random_checkpoint.hpp"

namespace {

using namespace weir::engine;
namespace tests = weir::tests;
using kernels_matrix = weir::kernels::matrix;
using parallel::shard;
using weir::kernels::dtype;

float value_at(const kernels_matrix& m, std::int32_t row, std::int32_t column) {
  const auto index =
      static_cast<std::size_t>(row) * static_cast<std::size_t>(m.cols) + static_cast<std::size_t>(column);
  if (m.type == dtype::mxfp4) return weir::kernels::load_mxfp4(m.data, m.exponents(), index);
  if (m.type == dtype::int8) return weir::kernels::load_int8(m.data, m.factors(), index);
  return weir::kernels::load_weight(m.data, m.type, index);
}

enum class axis { rows, columns, neither };

bool same(const kernels_matrix& part, const kernels_matrix& whole, const shard& of, axis along) {
  const std::int32_t row = along == axis::rows ? of.begin_of(whole.rows) : 0;
  const std::int32_t column = along == axis::columns ? of.begin_of(whole.cols) : 0;
  const std::int32_t rows = along == axis::rows ? of.end_of(whole.rows) - row : whole.rows;
  const std::int32_t columns = along == axis::columns ? of.end_of(whole.cols) - column : whole.cols;
  if (part.type != whole.type || part.rows != rows || part.cols != columns) return false;
  for (std::int32_t r = 0; r < rows; ++r) {
    for (std::int32_t c = 0; c < columns; ++c) {
      if (value_at(part, r, c) != value_at(whole, row + r, column + c)) return false;
    }
  }
  return true;
}

bool same(model::floats part, model::floats whole, const shard& of, std::int32_t rows) {
  const auto width = static_cast<std::int32_t>(whole.size()) / rows;
  const std::int32_t begin = of.begin_of(width);
  const std::int32_t own = of.end_of(width) - begin;
  if (static_cast<std::int32_t>(part.size()) != own * rows) return false;
  for (std::int32_t r = 0; r < rows; ++r) {
    for (std::int32_t i = 0; i < own; ++i) {
      const auto from = static_cast<std::size_t>(r * width + begin + i);
      if (part[static_cast<std::size_t>(r * own + i)] != whole[from]) return false;
    }
  }
  return true;
}

struct bound {
  tests::temporary_dir dir;
  model::model_config config;

  explicit bound(const tests::checkpoint_spec& spec) {
    tests::write_checkpoint(tests::make_checkpoint(spec, 7), dir.path());
    config = *model::load_model_config(dir.path());
  }
  model::model_weights weights() const {
    auto files = model::checkpoint::open(dir.path());
    REQUIRE(files);
    auto out = model::bind_weights(config, std::make_shared<model::checkpoint>(std::move(*files)));
    REQUIRE(out);
    return std::move(*out);
  }
};

void check_mlp(const model::mlp_weights& part, const model::mlp_weights& whole, const shard& of, bool cut) {
  CHECK(same(part.gate, whole.gate, of, cut ? axis::rows : axis::neither));
  CHECK(same(part.up, whole.up, of, cut ? axis::rows : axis::neither));
  CHECK(same(part.down, whole.down, of, cut ? axis::columns : axis::neither));
}

void check_moe(const model::moe_weights& part, const model::moe_weights& whole, const shard& of) {
  CHECK(same(part.router, whole.router, of, axis::neither));
  const bool tensor = of.split == split_kind::tensor;
  const auto experts = static_cast<std::int32_t>(whole.w1.size());
  const std::int32_t first = tensor ? 0 : of.begin_of(experts);
  REQUIRE(static_cast<std::int32_t>(part.w1.size()) == (tensor ? experts : of.end_of(experts) - first));
  for (std::size_t e = 0; e < part.w1.size(); ++e) {
    const std::size_t at = e + static_cast<std::size_t>(first);
    CHECK(same(part.w1[e], whole.w1[at], of, tensor ? axis::rows : axis::neither));
    CHECK(same(part.w3[e], whole.w3[at], of, tensor ? axis::rows : axis::neither));
    CHECK(same(part.w2[e], whole.w2[at], of, tensor ? axis::columns : axis::neither));
  }
  REQUIRE(part.shared.has_value() == whole.shared.has_value());
  if (part.shared) check_mlp(*part.shared, *whole.shared, of, tensor);
}

void check_layer(const model::layer_weights& part, const model::layer_weights& whole, const shard& of,
                 std::int32_t taps) {
  if (part.kda) {
    const auto& [a, b] = std::tie(*part.kda, *whole.kda);
    for (auto m : {&model::kda_weights::q, &model::kda_weights::k, &model::kda_weights::v,
                   &model::kda_weights::decay_b, &model::kda_weights::gate, &model::kda_weights::beta}) {
      CHECK(same(a.*m, b.*m, of, axis::rows));
    }
    CHECK(same(a.decay_a, b.decay_a, of, axis::neither));
    CHECK(same(a.out, b.out, of, axis::columns));
    for (auto f : {&model::kda_weights::q_conv, &model::kda_weights::k_conv, &model::kda_weights::v_conv}) {
      CHECK(same(a.*f, b.*f, of, taps));
    }
    CHECK(same(a.a_log, b.a_log, of, 1));
    CHECK(same(a.dt_bias, b.dt_bias, of, 1));
    CHECK(std::ranges::equal(a.norm, b.norm));
  }
  if (part.mla) {
    const auto& [a, b] = std::tie(*part.mla, *whole.mla);
    CHECK(same(a.q, b.q, of, axis::rows));
    CHECK(same(a.kv_b, b.kv_b, of, axis::rows));
    CHECK(same(a.kv_a, b.kv_a, of, axis::neither));
    CHECK(same(a.out, b.out, of, axis::columns));
    if (b.gate.data != nullptr) CHECK(same(a.gate, b.gate, of, axis::rows));
    if (b.q_a.data != nullptr) CHECK(same(a.q_a, b.q_a, of, axis::neither));
  }
  if (part.dense) check_mlp(*part.dense, *whole.dense, of, true);
  if (part.moe) check_moe(*part.moe, *whole.moe, of);
}

void check_parts(const bound& from, weight_format format, int ranks, split_kind split) {
  weir::kernels::thread_pool pool(1);
  model::model_weights whole = from.weights();
  const std::int64_t whole_bytes = whole.weight_bytes;
  model::narrow_weights(whole, format, pool, {});
  for (int rank = 0; rank < ranks; ++rank) {
    const shard of{rank, ranks, split};
    INFO("rank " << rank << " of " << ranks << (split == split_kind::tensor ? ", tensor" : ", expert"));
    const auto agreed = parallel::check_shard(from.config, format, of);
    INFO((agreed ? std::string() : agreed.error().detail));
    REQUIRE(agreed);
    model::model_weights part = from.weights();
    parallel::take_shard(part, from.config, of);
    CHECK(part.weight_bytes < whole_bytes);
    CHECK(part.weight_bytes > whole_bytes / ranks);
    model::narrow_weights(part, format, pool, {});
    CHECK(same(part.head, whole.head, of, axis::rows));
    CHECK(same(part.embedding, whole.embedding, of, axis::neither));
    for (std::size_t i = 0; i < whole.layers.size(); ++i) {
      INFO("layer " << i);
      const model::model_config own = parallel::config_of(from.config, of);
      check_layer(part.layers[i], whole.layers[i], of, from.config.conv_taps);
      if (part.layers[i].kda) CHECK(part.layers[i].kda->beta.rows == own.kda_heads);
      if (part.layers[i].dense) CHECK(part.layers[i].dense->gate.rows == own.dense_width);
    }
  }
}

tests::checkpoint_spec plain_spec() {
  tests::checkpoint_spec spec;
  spec.vocab = 67;  // parts of the head are of different sizes
  spec.mla_heads = spec.kda_heads = 4;
  spec.kda_dim = spec.value = 64;
  spec.dense_width = 256;
  spec.expert_width = 256;
  spec.is_kda = {true, false, true};
  return spec;
}

tests::checkpoint_spec wide_k3_spec() {
  tests::checkpoint_spec spec = tests::k3_spec();
  spec.mla_heads = spec.kda_heads = 4;
  spec.dense_width = 256;
  spec.expert_width = 256;
  spec.experts = 8;
  return spec;
}

std::string refusal(const tests::checkpoint_spec& spec, weight_format format, int ranks, split_kind split) {
  const bound from(spec);
  const auto agreed = parallel::check_shard(from.config, format, {0, ranks, split});
  return agreed ? "" : agreed.error().detail;
}

}  // namespace

TEST_CASE("a rank's weights are those of the whole at its place", "[shard]") {
  const bound plain(plain_spec());
  const bound k3(wide_k3_spec());
  for (const split_kind split : {split_kind::tensor, split_kind::expert}) {
    for (const int ranks : {2, 4}) {
      check_parts(plain, weight_format::stored, ranks, split);
      check_parts(plain, weight_format::int8, ranks, split);
      check_parts(plain, weight_format::mxfp4, ranks, split);
      check_parts(k3, weight_format::stored, ranks, split);
    }
  }
}

TEST_CASE("a head tied to the embedding is divided, and counted once", "[shard]") {
  tests::checkpoint_spec spec = plain_spec();
  spec.tie = true;
  spec.vocab = 64;
  spec.hidden = 64;
  const bound from(spec);
  weir::kernels::thread_pool pool(1);
  std::int64_t bytes[2] = {};
  for (int rank = 0; rank < 2; ++rank) {
    model::model_weights part = from.weights();
    parallel::take_shard(part, from.config, {rank, 2, split_kind::tensor});
    CHECK(same(part.head, part.embedding, {rank, 2, split_kind::tensor}, axis::rows));
    model::narrow_weights(part, weight_format::int8, pool, {});
    CHECK(part.head.type == dtype::int8);
    bytes[rank] = part.weight_bytes;
  }
  CHECK(bytes[0] == bytes[1]);
}

TEST_CASE("what ranks do not divide is refused by its key", "[shard]") {
  const auto has = [](const std::string& text, const char* what) {
    return text.find(what) != std::string::npos;
  };
  constexpr auto k_stored = weight_format::stored;
  constexpr auto k_tensor = split_kind::tensor;
  tests::checkpoint_spec spec = plain_spec();
  CHECK(refusal(spec, k_stored, 4, k_tensor).empty());
  CHECK(has(refusal(spec, k_stored, 3, k_tensor),
            "linear_attn_config.num_heads is 4: 3 ranks do not divide it"));
  spec.kda_heads = 6;
  CHECK(has(refusal(spec, k_stored, 3, k_tensor), "num_attention_heads is 4"));
  spec.mla_heads = 6;
  CHECK(has(refusal(spec, k_stored, 3, k_tensor), "intermediate_size is 256"));
  spec.dense_width = 192;
  CHECK(has(refusal(spec, k_stored, 3, k_tensor), "moe_intermediate_size is 256"));
  CHECK(has(refusal(spec, k_stored, 3, split_kind::expert), "num_experts is 4"));
  spec.experts = 9;
  CHECK(refusal(spec, k_stored, 3, split_kind::expert).empty());
}

TEST_CASE("parts that cut through a scale's group are refused", "[shard]") {
  const auto has = [](const std::string& text, const char* what) {
    return text.find(what) != std::string::npos;
  };
  tests::checkpoint_spec spec = plain_spec();
  spec.kda_dim = 16;
  CHECK(has(
      refusal(spec, weight_format::int8, 2, split_kind::tensor),
      "linear_attn_config: 64 columns on 2 ranks cut through the groups of 64 that share a scale in int8"));
  spec.kda_heads = 2;  // 32 columns are never narrowed
  CHECK(refusal(spec, weight_format::int8, 2, split_kind::tensor).empty());
  spec.expert_width = 64;
  CHECK(has(refusal(spec, weight_format::int8, 2, split_kind::tensor), "num_shared_experts times"));
  CHECK(refusal(spec, weight_format::mxfp4, 2, split_kind::tensor).empty());
  CHECK(refusal(spec, weight_format::int8, 2, split_kind::expert).empty());
  spec.kda_heads = 4;
  CHECK(has(refusal(spec, weight_format::mxfp4, 4, split_kind::tensor),
            "moe_intermediate_size: 64 columns on 4 ranks"));
  tests::checkpoint_spec packed = wide_k3_spec();
  packed.expert_width = 64;
  CHECK(has(refusal(packed, weight_format::stored, 4, split_kind::tensor),
            "groups of 32 that share a scale in MXFP4"));
  CHECK(refusal(packed, weight_format::stored, 4, split_kind::expert).empty());
}
