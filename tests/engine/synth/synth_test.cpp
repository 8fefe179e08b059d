#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>

#include "engine/bench/bench.hpp"
#include "engine/model/checkpoint.hpp"
#include "engine/model/mapped_file.hpp"
#include "engine/synth/random_model.hpp"
#include "engine/synth/random_source.hpp"
#include "engine/synth/write_checkpoint.hpp"
#include "tests/support/random_checkpoint.hpp"

namespace weir::engine {
namespace {

namespace fs = std::filesystem;

const fs::path k_models = fs::path(WEIR_SOURCE_DIR) / "configs/models";

model::model_config config_of(const fs::path& file) {
  const auto text = model::read_file(file, model::k_config_bytes_max);
  REQUIRE(text);
  auto config = model::parse_model_config(*text);
  if (!config) FAIL(config.error().detail);
  return *config;
}

std::vector<synth::named_tensor> tensors_of(const fs::path& file) {
  auto tensors = synth::tensors_of(config_of(file));
  REQUIRE(tensors);
  return std::move(*tensors);
}

struct size_sum {
  std::int64_t parameters = 0;
  std::int64_t bytes = 0;
};

size_sum sum_of(const std::vector<synth::named_tensor>& tensors) {
  size_sum out;
  for (const auto& t : tensors) {
    const auto plan = synth::plan_of(t.name, t.shape, t.how);
    out.bytes += plan.bytes;
    if (t.how != model::storage::scales)
      out.parameters += plan.values * (t.how == model::storage::codes ? 2 : 1);
  }
  return out;
}

std::string content(const fs::path& file) {
  std::ostringstream out;
  out << std::ifstream(file, std::ios::binary).rdbuf();
  return out.str();
}

// A configuration file of the small checkpoints that other tests use.
fs::path small_config(const fs::path& dir, const tests::checkpoint_spec& spec) {
  const auto file = dir / "small.json";
  tests::write_file(file, tests::config_json(spec));
  return file;
}

std::vector<double> logits_after(const std::shared_ptr<const runner::loaded_model>& model,
                                 const std::vector<std::int32_t>& prompt) {
  runner::runner_config how;
  how.page_tokens = 16;
  const auto slab_pages =
      runner::layout_of(model->config, runner::numbers_of(how.backend), how.page_tokens).slab_pages;
  how.slab_count = 1 + 4 / slab_pages + 1;
  const auto of = runner::make_runner(model, how);
  std::vector<std::int32_t> pages(4);
  std::iota(pages.begin(), pages.end(), slab_pages);
  runner::batch work;
  work.reset(4);
  work.append(prompt, 0, 0, pages);
  work.logit_rows = {static_cast<std::int32_t>(prompt.size()) - 1};
  of->run(work);
  std::vector<double> logits(static_cast<std::size_t>(model->config.vocab_size));
  of->copy_logits(0, logits);
  return logits;
}

}  // namespace

TEST_CASE("a configuration asks for the tensors that its checkpoint has, in name and shape") {
  const auto dir = k_models / "weir-tiny";
  auto files = model::checkpoint::open(dir);
  REQUIRE(files);
  const auto tensors = tensors_of(dir / "config.json");
  CHECK(tensors.size() == files->index().size());
  for (const auto& t : tensors) {
    INFO(t.name);
    const auto there = files->find(t.name);
    REQUIRE(there);
    CHECK(there->shape == t.shape);
  }
}

TEST_CASE("the published configurations give the published sizes") {
  // Of the 497,220 tensors of Kimi K3, 168 are of the vision tower, and the two that would mix what its first
  // layer's attention reads are not bound, since there is nothing to mix; A_log is stored with 32 zeros
  // beyond its 96 heads in each of 69 layers.
  CHECK(sum_of(tensors_of(k_models / "kimi-linear-48b-a3b.json")).parameters == 49'122'681'728);
  const auto k3 = tensors_of(k_models / "kimi-k3.json");
  CHECK(k3.size() == 497'220 - 168 - 2);
  const auto size = sum_of(k3);
  CHECK(size.parameters == 2'779'484'478'208 - 2 * 7168 - 69 * 32);
  // The files hold 0.80 GB of vision weights too.
  CHECK(static_cast<double>(size.bytes) == Approx(1'560'860'324'864.0 - 0.80e9).epsilon(2e-4));
}

TEST_CASE("a checkpoint that is given up leaves nothing behind") {
  const tests::temporary_dir dir;
  const auto config = small_config(dir.path(), {});
  const auto out = dir.path() / "out";
  std::int64_t done_bytes = 0;
  synth::write_options how{.config_file = config, .out_dir = out, .shard_bytes = 40'000};
  how.told = [&done_bytes](std::int64_t done, std::int64_t) { done_bytes = done; };
  how.stopped = [&done_bytes] { return done_bytes > 60'000; };
  const auto made = synth::write_checkpoint(how);
  REQUIRE_FALSE(made);
  CHECK(made.error().code == errc::stopped);
  CHECK(done_bytes > 60'000);  // beyond the first shard
  CHECK_FALSE(fs::exists(out));
  fs::create_directory(out);  // somebody else's
  CHECK_FALSE(synth::write_checkpoint(how));
  CHECK(fs::is_empty(out));
  how.stopped = nullptr;
  CHECK(synth::write_checkpoint(how));
}

TEST_CASE("a written checkpoint loads, and holds what the same seed makes in memory") {
  for (const auto& spec : {tests::checkpoint_spec{}, tests::k3_spec()}) {
    INFO((spec.nested ? "nested" : "flat"));
    const tests::temporary_dir dir;
    const auto config = small_config(dir.path(), spec);
    synth::write_options how{
        .config_file = config, .out_dir = dir.path() / "out", .seed = 7, .shard_bytes = 40'000};
    std::int64_t told = 0;
    how.told = [&told](std::int64_t done, std::int64_t) { told = done; };
    const auto made = synth::write_checkpoint(how);
    if (!made) FAIL(made.error().detail);
    CHECK(made->shards > 1);
    CHECK(told == made->bytes);
    const auto loaded = runner::load_model(how.out_dir);
    if (!loaded) FAIL(loaded.error().detail);
    CHECK((*loaded)->weights.weight_bytes == made->bytes);
    const auto random = synth::make_model({.config_file = config, .seed = 7, .threads = 2});
    REQUIRE(random);
    const std::vector<std::int32_t> prompt{3, 1, 4, 1, 5, 9, 2, 6};
    const auto logits = logits_after(*loaded, prompt);
    CHECK(std::ranges::all_of(logits, [](double x) { return std::isfinite(x); }));
    CHECK(logits == logits_after(*random, prompt));
    const auto other = synth::make_model({.config_file = config, .seed = 8});
    REQUIRE(other);
    CHECK(logits != logits_after(*other, prompt));

    how.out_dir = dir.path() / "again";
    how.threads = 3;
    REQUIRE(synth::write_checkpoint(how));
    for (const auto& file : fs::directory_iterator(how.out_dir)) {
      INFO(file.path());
      CHECK(content(file.path()) == content(dir.path() / "out" / file.path().filename()));
    }
  }
}

TEST_CASE("a tensor is the same in pieces of any thread count") {
  const std::vector<std::int64_t> shape{3, 1'000'000};
  const std::size_t bytes = 6'000'000;
  const auto fill = [&](int threads, std::size_t piece) {
    kernels::thread_pool pool(threads);
    std::vector<std::byte> out(bytes);
    for (std::size_t at = 0; at < bytes; at += piece) {
      synth::fill_tensor("x.weight", shape, model::storage::matrix, 5, at,
                         std::span(out).subspan(at, std::min(piece, bytes - at)), pool);
    }
    return out;
  };
  const auto whole = fill(1, bytes);
  CHECK(whole == fill(3, bytes));
  CHECK(whole == fill(2, 2 * synth::k_fill_bytes));
}

TEST_CASE("what cannot be written or held is refused with the reason") {
  const tests::temporary_dir dir;
  const auto config = small_config(dir.path(), {});
  const auto full = synth::write_checkpoint({.config_file = config, .out_dir = dir.path()});
  REQUIRE(!full);
  CHECK(full.error().detail.find("is not empty") != std::string::npos);
  const auto none =
      synth::write_checkpoint({.config_file = dir.path() / "none", .out_dir = dir.path() / "x"});
  REQUIRE(!none);
  CHECK(!fs::exists(dir.path() / "x"));
  const auto large = synth::make_model({.config_file = k_models / "kimi-k3.json"});
  REQUIRE(!large);
  CHECK(large.error().code == errc::bad_request);
  CHECK(large.error().detail.find("bytes; this machine has") != std::string::npos);
  const auto disk =
      synth::write_checkpoint({.config_file = k_models / "kimi-k3.json", .out_dir = dir.path() / "y"});
  REQUIRE(!disk);
  CHECK(disk.error().detail.find("free") != std::string::npos);
}

TEST_CASE("the benchmark counts what steps read and compute") {
  const auto model = runner::load_model(k_models / "weir-tiny");
  REQUIRE(model);
  const auto& config = (*model)->config;
  bench::bench_options how{.prompt_tokens = 40,
                           .chunk_tokens = 16,
                           .batches = {1, 3},
                           .context_tokens = 8,
                           .decode_steps = 2,
                           .min_seconds = 0};
  const auto report = bench::run(*model, how);
  if (!report) FAIL(report.error().detail);
  CHECK(report->prefill.steps == 3);
  CHECK(report->prefill.tokens == 40);
  const auto& one = report->decode.at(0);
  CHECK(one.steps == 2);
  const std::int64_t expert_layers = config.layer_count() - config.dense_layers;
  CHECK(one.times.experts_read == one.steps * expert_layers * config.experts_per_token);
  // One token at a time reads exactly what it computes with, in bf16.
  CHECK(one.weight_bytes == Approx(static_cast<double>(one.steps * report->token_bytes)));
  CHECK(one.flops == Approx(one.weight_bytes));
  const auto& three = report->decode.at(1);
  CHECK(three.tokens == 3 * three.steps);
  CHECK(three.flops == Approx(3 * one.flops));
  CHECK(three.weight_bytes < 3 * one.weight_bytes);
  CHECK(three.multiply_s == Approx(3 * one.multiply_s));
  CHECK(three.multiply_s == Approx(three.flops / report->machine.flops_per_s));
  CHECK(three.read_s == Approx(three.weight_bytes / report->machine.read_bytes_per_s));
  for (const auto* p : {&report->prefill, &one, &three}) {
    CHECK(p->times.total_ns() > 0);
    CHECK(static_cast<double>(p->times.total_ns()) <= p->seconds * 1e9);
  }
  how.batches = {0};
  CHECK(!bench::run(*model, how));
  how.batches = {1};
  how.decode_steps = config.context_tokens;
  CHECK(!bench::run(*model, how));
}

}  // namespace weir::engine
