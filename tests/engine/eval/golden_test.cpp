// The bundled checkpoints against float64 goldens, on both backends, whole and in awkward chunks; and the
// proof that the two epsilons which published code and configuration disagree on are visible in these
// goldens.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "engine/eval/eval.hpp"

namespace {

namespace eval = weir::engine::eval;
using weir::engine::activation_format;
using weir::engine::backend_kind;
using weir::engine::weight_format;

const std::filesystem::path k_root = WEIR_SOURCE_DIR;

eval::eval_report run(eval::eval_options options, const char* model) {
  options.model_dir = k_root / model;
  options.cases = k_root / model / "golden.json";
  const auto report = eval::evaluate(options);
  INFO((report ? std::string() : report.error().detail));
  REQUIRE(report);
  REQUIRE(report->tokens > 0);
  return *report;
}

constexpr const char* k_fixture = "tests/data/kimi-linear-a";
constexpr const char* k_k3_fixture = "tests/data/kimi-k3-a";
constexpr const char* k_bundled = "configs/models/weir-tiny";

}  // namespace

TEST_CASE("checkpoints agree with their goldens", "[golden]") {
  struct row {
    const char* name;
    const char* model;
    backend_kind backend;
    double tolerance;
    std::int32_t chunk_tokens;
    std::int32_t page_tokens;
    int threads;
  };
  const row rows[] = {
      {"fixture, reference, whole", k_fixture, backend_kind::reference, 2e-6, 512, 64, 1},
      {"fixture, reference, chunks of 7 on pages of 5", k_fixture, backend_kind::reference, 2e-6, 7, 5, 1},
      {"fixture, cpu, whole", k_fixture, backend_kind::cpu, 1e-4, 512, 64, 1},
      {"fixture, cpu, three threads, chunks of 13", k_fixture, backend_kind::cpu, 1e-4, 13, 16, 3},
      {"fixture, cpu, token by token", k_fixture, backend_kind::cpu, 1e-4, 1, 1, 1},
      {"K3 fixture, reference, whole", k_k3_fixture, backend_kind::reference, 2e-6, 512, 64, 1},
      {"K3 fixture, reference, chunks of 7 on pages of 5", k_k3_fixture, backend_kind::reference, 2e-6, 7, 5,
       1},
      // Its latents are small on purpose, which amplifies float32 rounding.
      {"K3 fixture, cpu, whole", k_k3_fixture, backend_kind::cpu, 5e-4, 512, 64, 1},
      {"K3 fixture, cpu, three threads, chunks of 13", k_k3_fixture, backend_kind::cpu, 5e-4, 13, 16, 3},
      {"K3 fixture, cpu, token by token", k_k3_fixture, backend_kind::cpu, 5e-4, 1, 1, 1},
      {"weir-tiny, reference", k_bundled, backend_kind::reference, 2e-6, 512, 64, 1},
      {"weir-tiny, cpu", k_bundled, backend_kind::cpu, 1e-4, 512, 64, 1},
      {"weir-tiny, cpu, chunks of 31", k_bundled, backend_kind::cpu, 1e-4, 31, 16, 2},
  };
  for (const row& r : rows) {
    SECTION(r.name) {
      eval::eval_options options;
      options.backend = r.backend;
      options.tolerance = r.tolerance;
      options.chunk_tokens = r.chunk_tokens;
      options.page_tokens = r.page_tokens;
      options.compute_threads = r.threads;
      const eval::eval_report report = run(options, r.model);
      INFO(r.name << ": logits " << report.worst.logits << ", logprob " << report.worst.next_logprob
                  << ", state " << report.worst.kda_state << ", "
                  << static_cast<double>(report.tokens) / report.seconds << " tok/s");
      CHECK(report.worst.logits <= r.tolerance);
      CHECK(report.worst.next_logprob <= r.tolerance);
      CHECK(report.worst.kda_state <= r.tolerance);
      CHECK(report.worst.argmax_mismatches == 0);
      CHECK(report.worst.greedy_mismatches == 0);
      CHECK(report.passed());
    }
  }
}

// On the trained model: in one of random weights the nearly equal experts change places, and with them the
// logits by as much as they are large.
TEST_CASE("weights and activations in fewer bits move a trained model's logits by little", "[golden]") {
  struct row {
    const char* name;
    weight_format weights;
    backend_kind backend;
    activation_format activations;
    double tolerance;  // logits reach 24
  };
  constexpr auto wide = activation_format::float32;
  constexpr auto narrow = activation_format::narrow;
  const row rows[] = {
      {"int8, reference", weight_format::int8, backend_kind::reference, wide, 0.3},
      {"int8", weight_format::int8, backend_kind::cpu, wide, 0.3},
      {"MXFP4 experts, reference", weight_format::mxfp4, backend_kind::reference, wide, 0.8},
      {"MXFP4 experts", weight_format::mxfp4, backend_kind::cpu, wide, 0.8},
      {"bf16 activations", weight_format::stored, backend_kind::cpu, narrow, 0.1},
      {"int8, activations too", weight_format::int8, backend_kind::cpu, narrow, 1.5},
      {"MXFP4 experts, 8-bit activations", weight_format::mxfp4, backend_kind::cpu, narrow, 1.0},
  };
  for (const row& r : rows) {
    eval::eval_options options;
    options.backend = r.backend;
    options.weights = r.weights;
    options.activations = r.activations;
    options.tolerance = r.tolerance;
    const eval::eval_report report = run(options, k_bundled);
    INFO(r.name << ": logits " << report.worst.logits << ", argmax " << report.worst.argmax_mismatches
                << ", greedy " << report.worst.greedy_mismatches);
    CHECK(report.worst.logits > 1e-3);
    CHECK(report.passed());
  }
}

TEST_CASE("each epsilon trap moves the fixture's logits by more than the tolerance", "[golden]") {
  constexpr double k_config_eps = 1e-5;  // rms_norm_eps, what a port that ignores the class default uses
  struct row {
    const char* name;
    const char* model;
    bool latent;
  };
  const row rows[] = {{"kv_a_layernorm", k_fixture, true},
                      {"L2 norm of queries and keys", k_fixture, false},
                      {"K3: kv_a_layernorm and q_a_layernorm", k_k3_fixture, true}};
  for (const row& r : rows) {
    SECTION(r.name) {
      const bool latent = r.latent;
      eval::eval_options options;
      options.backend = backend_kind::reference;
      (latent ? options.latent_norm_eps : options.l2_norm_eps) = k_config_eps;
      options.tolerance = 1e-4;
      const eval::eval_report report = run(options, r.model);
      INFO("moved by " << report.worst.logits);
      CHECK(report.worst.logits > 1e-4);
      CHECK_FALSE(report.passed());
    }
  }
}
