#include "engine/bench/bench.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "engine/bench/device_limits.hpp"
#include "engine/runner/backend.hpp"

namespace weir::engine::bench {

namespace {

using clock = std::chrono::steady_clock;
using kernels::matrix;

constexpr std::int32_t k_page_tokens = 64;

double seconds_since(clock::time_point begin) {
  return std::chrono::duration<double>(clock::now() - begin).count();
}

double bytes_of(const matrix& m) {
  if (m.data == nullptr) return 0;
  return static_cast<double>(kernels::stored_bytes(m.type, static_cast<std::int64_t>(m.rows) * m.cols));
}

// What a row costs in the products of a layer stack: of all matrices that each row passes, of one routed
// expert of every layer with experts, and of the head, which only rows with wanted logits pass.
class cost {
 public:
  double values = 0;
  double bytes = 0;
  double multiply_s = 0;  // at the peaks of `machine`

  cost(const kernels::machine_limits& machine, kernels::activation_format activations)
      : machine_(&machine), activations_(activations) {}

  void add(const matrix& m) {
    if (m.data == nullptr) return;
    const double count = static_cast<double>(m.rows) * m.cols;
    values += count;
    bytes += bytes_of(m);
    multiply_s += 2 * count / kernels::peak_of(*machine_, m.type, activations_);
  }

 private:
  const kernels::machine_limits* machine_;
  kernels::activation_format activations_;
};

struct stack_cost {
  cost shared, expert, head;
  std::int32_t expert_layers = 0;
};

void add_mlp(cost& to, const model::mlp_weights& w) {
  for (const matrix* m : {&w.gate, &w.up, &w.down}) to.add(*m);
}

stack_cost cost_of(const model::model_weights& weights, const cost& nothing) {
  stack_cost out{nothing, nothing, nothing};
  out.head.add(weights.head);
  for (const auto& layer : weights.layers) {
    if (layer.kda) {
      const auto& w = *layer.kda;
      for (const matrix* m : {&w.q, &w.k, &w.v, &w.decay_a, &w.decay_b, &w.gate_a, &w.gate, &w.beta, &w.out})
        out.shared.add(*m);
    }
    if (layer.mla) {
      const auto& w = *layer.mla;
      for (const matrix* m : {&w.q, &w.q_a, &w.kv_a, &w.kv_b, &w.gate, &w.out}) out.shared.add(*m);
    }
    if (layer.dense) add_mlp(out.shared, *layer.dense);
    if (!layer.moe) continue;
    const auto& w = *layer.moe;
    for (const matrix* m : {&w.router, &w.routed_down, &w.routed_up}) out.shared.add(*m);
    if (w.shared) add_mlp(out.shared, *w.shared);
    // Experts of a model are all of one size.
    if (out.expert_layers++ == 0) {
      for (const matrix* m : {&w.w1.front(), &w.w3.front(), &w.w2.front()}) out.expert.add(*m);
    }
  }
  return out;
}

class bench final {
 public:
  bench(std::shared_ptr<const runner::loaded_model> model, const bench_options& options,
        const kernels::machine_limits& machine)
      : model_(std::move(model)),
        options_(options),
        machine_(machine),
        cost_(cost_of(model_->weights, {machine, options.activations})) {
    const std::int32_t most = *std::max_element(options.batches.begin(), options.batches.end());
    const std::int32_t decoded = options.context_tokens + options.decode_steps;
    sequence_pages_ = (decoded - 1) / k_page_tokens + 1;
    const std::int32_t prompt_pages = (options.prompt_tokens - 1) / k_page_tokens + 1;
    runner::runner_config config;
    config.backend = options.backend;
    config.activations = options.activations;
    config.compute_threads = options.compute_threads;
    // States lie in the first slabs, pages in those behind them.
    const std::int32_t pages = std::max(most * sequence_pages_, prompt_pages);
    const std::int32_t slab_pages =
        runner::layout_of(model_->config, runner::numbers_of(options.backend, options.activations),
                          k_page_tokens)
            .slab_pages;
    config.slab_count = most + (pages - 1) / slab_pages + 1;
    config.page_tokens = k_page_tokens;
    config.times = &times_;
    pages_.resize(static_cast<std::size_t>(pages));
    std::iota(pages_.begin(), pages_.end(), most * slab_pages);
    runner_ = runner::make_runner(model_, config);
  }

  phase prefill() {
    prompt(options_.prompt_tokens, 0, pages_);  // memory is touched, and the code is there
    phase out;
    begin();
    while (out.steps == 0 || out.seconds < options_.min_seconds) {
      out.steps += prompt(options_.prompt_tokens, 0, pages_);
      out.tokens += options_.prompt_tokens;
      out.seconds = seconds_since(begun_);
    }
    const double prompts = static_cast<double>(out.tokens) / options_.prompt_tokens;
    return finish(out, prompts);
  }

  phase decode(std::int32_t batch) {
    phase out{.batch = batch};
    for (std::int32_t i = 0; i < batch; ++i) prompt(options_.context_tokens, i, pages_of(i));
    step(batch, 0);
    begin();
    while (out.steps == 0 || out.seconds < options_.min_seconds) {
      for (std::int32_t i = 0; i < options_.decode_steps; ++i) step(batch, i);
      out.steps += options_.decode_steps;
      out.seconds = seconds_since(begun_);
    }
    out.tokens = out.steps * batch;
    return finish(out, static_cast<double>(out.tokens));
  }

  std::int64_t token_bytes() const {
    const double experts = static_cast<double>(cost_.expert_layers) * model_->config.experts_per_token;
    return static_cast<std::int64_t>(cost_.shared.bytes + cost_.head.bytes + experts * cost_.expert.bytes);
  }

 private:
  std::span<const std::int32_t> pages_of(std::int32_t sequence) const {
    const auto count = static_cast<std::size_t>(sequence_pages_);
    return std::span(pages_).subspan(static_cast<std::size_t>(sequence) * count, count);
  }

  // Any tokens: their embeddings are as different as those of a text.
  std::int32_t next_token() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::int32_t>((state_ >> 33) % static_cast<std::uint64_t>(model_->config.vocab_size));
  }

  // Steps that it took.
  std::int64_t prompt(std::int32_t tokens, std::int32_t slot, std::span<const std::int32_t> pages) {
    std::int64_t steps = 0;
    for (std::int32_t at = 0; at < tokens; at += options_.chunk_tokens) {
      const std::int32_t count = std::min(options_.chunk_tokens, tokens - at);
      chunk_.resize(static_cast<std::size_t>(count));
      for (auto& token : chunk_) token = next_token();
      work_.reset(static_cast<std::int32_t>(pages.size()));
      work_.append(chunk_, at, slot, pages);
      work_.logit_rows.clear();
      if (at + count == tokens) work_.logit_rows.push_back(count - 1);
      runner_->run(work_);
      ++steps;
    }
    return steps;
  }

  void step(std::int32_t batch, std::int32_t position) {
    work_.reset(sequence_pages_);
    for (std::int32_t i = 0; i < batch; ++i) {
      const std::int32_t token = next_token();
      work_.append({&token, 1}, options_.context_tokens + position, i, pages_of(i));
    }
    work_.logit_rows.resize(static_cast<std::size_t>(batch));
    std::iota(work_.logit_rows.begin(), work_.logit_rows.end(), 0);
    runner_->run(work_);
  }

  void begin() {
    times_ = {};
    begun_ = clock::now();
  }

  phase finish(phase out, double logit_rows) const {
    const auto steps = static_cast<double>(out.steps);
    const auto rows = static_cast<double>(out.tokens);
    const double experts = static_cast<double>(cost_.expert_layers) * model_->config.experts_per_token;
    out.times = times_;
    const double heads = out.batch > 0 ? steps : logit_rows;
    out.weight_bytes = steps * cost_.shared.bytes + heads * cost_.head.bytes +
                       static_cast<double>(times_.experts_read) * cost_.expert.bytes;
    out.flops =
        2 * (rows * (cost_.shared.values + experts * cost_.expert.values) + logit_rows * cost_.head.values);
    out.read_s = out.weight_bytes / machine_.read_bytes_per_s;
    out.multiply_s = rows * (cost_.shared.multiply_s + experts * cost_.expert.multiply_s) +
                     logit_rows * cost_.head.multiply_s;
    return out;
  }

  std::shared_ptr<const runner::loaded_model> model_;
  const bench_options& options_;
  const kernels::machine_limits& machine_;
  stack_cost cost_;
  std::int32_t sequence_pages_ = 1;
  kernels::op_times times_;
  std::unique_ptr<runner::model_runner> runner_;
  std::vector<std::int32_t> pages_, chunk_;
  runner::batch work_;
  std::uint64_t state_ = 1;
  clock::time_point begun_;
};

result<void> check(const bench_options& o, const model::model_config& config) {
  const auto refuse = [](const std::string& what) { return fail(errc::bad_request, what); };
  const auto in = [](std::int64_t value, std::int64_t low, std::int64_t high) {
    return value >= low && value <= high;
  };
  const std::int32_t most = std::min(k_bench_tokens_max, config.context_tokens);
  if (!in(o.compute_threads, 1, kernels::k_compute_threads_max)) return refuse("threads: expected 1 to 256");
  if (!in(o.prompt_tokens, 1, most))
    return refuse("prompt: expected 1 to " + std::to_string(most) + " tokens, as the model has context");
  if (!in(o.chunk_tokens, 1, k_bench_tokens_max))
    return refuse("chunk: expected 1 to " + std::to_string(k_bench_tokens_max) + " tokens");
  if (!in(o.context_tokens, 1, most - 1))
    return refuse("context: expected 1 to " + std::to_string(most - 1) + " tokens, before the model's last");
  if (!in(o.decode_steps, 1, most - o.context_tokens)) {
    return refuse("steps: expected 1 to " + std::to_string(most - o.context_tokens) +
                  ", what the model's context leaves behind --context");
  }
  const bool fit = std::ranges::all_of(o.batches, [&](std::int32_t b) { return in(b, 1, k_batch_max); });
  if (o.batches.empty() || !fit) return refuse("batch: expected 1 to 1024");
  return {};
}

}  // namespace

result<bench_report> run(std::shared_ptr<const runner::loaded_model> model, const bench_options& wanted) {
  if (auto good = check(wanted, model->config); !good) return std::unexpected(good.error());
  const auto backend = runner::resolve(wanted.backend);
  if (!backend) return std::unexpected(backend.error());
  bench_options options = wanted;
  options.backend = *backend;
  const auto tell = [&options](const std::string& what) {
    if (options.progress) options.progress(what);
  };
  bench_report out;
  out.parameters = model->weights.parameter_count;
  out.weight_bytes = model->weights.weight_bytes;
  tell("what the machine can do");
  if (options.backend == backend_kind::cuda) {
    const auto limits = measure_device(0);
    if (!limits) return std::unexpected(limits.error());
    out.machine = *limits;
  } else {
    kernels::thread_pool pool(options.compute_threads);
    out.machine = kernels::measure_machine(pool);
  }
  bench of(std::move(model), options, out.machine);
  out.token_bytes = of.token_bytes();
  tell("prefill");
  out.prefill = of.prefill();
  for (const std::int32_t batch : options.batches) {
    tell("decode of " + std::to_string(batch));
    out.decode.push_back(of.decode(batch));
  }
  return out;
}

}  // namespace weir::engine::bench
