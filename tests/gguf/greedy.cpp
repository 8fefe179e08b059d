#include "tests/gguf/greedy.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include "engine/runner/batch.hpp"

namespace weir::tests::gguf {

namespace {

namespace runner = engine::runner;

constexpr std::int32_t k_page_tokens = 64;

std::string text_of(double value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

template <class Values, class Text>
std::string list_of(const Values& values, Text text) {
  std::string out = "[";
  for (const auto& value : values) out += (out.size() > 1 ? "," : "") + text(value);
  return out + ']';
}

// One sequence alone: its state is the first slab, its pages fill those behind it in order.
class session final {
 public:
  session(std::shared_ptr<const runner::loaded_model> model, const greedy_options& options,
          std::size_t tokens_max)
      : pages_((tokens_max - 1) / k_page_tokens + 1),
        logits_(static_cast<std::size_t>(model->config.vocab_size)),
        chunk_(static_cast<std::size_t>(options.chunk_tokens)) {
    const std::int32_t slab_pages =
        runner::layout_of(model->config, runner::numbers_of(options.backend), k_page_tokens).slab_pages;
    std::iota(pages_.begin(), pages_.end(), slab_pages);
    runner::runner_config config;
    config.backend = options.backend;
    config.compute_threads = options.compute_threads;
    config.slab_count = 1 + (static_cast<std::int32_t>(pages_.size()) - 1) / slab_pages + 1;
    config.page_tokens = k_page_tokens;
    config.latent_norm_eps = options.latent_norm_eps;
    config.l2_norm_eps = options.l2_norm_eps;
    runner_ = runner::make_runner(std::move(model), config);
  }

  void restart() noexcept { position_ = 0; }

  // Logits after the last of the tokens.
  std::span<const double> run(std::span<const std::int32_t> tokens) {
    for (std::size_t first = 0; first < tokens.size(); first += chunk_) {
      const auto part = tokens.subspan(first, std::min(chunk_, tokens.size() - first));
      work_.reset(static_cast<std::int32_t>(pages_.size()));
      work_.append(part, position_, 0, pages_);
      work_.logit_rows.assign(1, static_cast<std::int32_t>(part.size()) - 1);
      runner_->run(work_);
      position_ += static_cast<std::int32_t>(part.size());
    }
    runner_->copy_logits(0, logits_);
    return logits_;
  }

 private:
  std::vector<std::int32_t> pages_;
  std::vector<double> logits_;
  std::size_t chunk_;
  std::unique_ptr<runner::model_runner> runner_;
  runner::batch work_;
  std::int32_t position_ = 0;
};

std::vector<std::int32_t> largest(std::span<const double> logits, std::size_t count) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>(std::min(count, order.size()));
  std::partial_sort(order.begin(), middle, order.end(), [&logits](std::int32_t a, std::int32_t b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  order.erase(middle, order.end());
  return order;
}

std::string continue_one(session& run, const std::vector<std::int32_t>& prompt,
                         const greedy_options& options) {
  std::vector<std::int32_t> greedy;
  std::vector<double> margins;
  std::vector<std::string> tops;
  run.restart();
  auto logits = run.run(prompt);
  for (std::int32_t step = 0; step < options.steps; ++step) {
    const auto best = largest(logits, std::max<std::size_t>(options.top, 2));
    const auto logit = [&logits](std::int32_t token) { return logits[static_cast<std::size_t>(token)]; };
    greedy.push_back(best[0]);
    margins.push_back(logit(best[0]) - logit(best[1]));
    tops.push_back(list_of(best, [&logit](std::int32_t token) {
      return '[' + std::to_string(token) + ',' + text_of(logit(token)) + ']';
    }));
    if (step + 1 < options.steps) logits = run.run({&greedy.back(), 1});
  }
  const auto id = [](std::int32_t token) { return std::to_string(token); };
  return R"({"prompt":)" + list_of(prompt, id) + R"(,"greedy":)" + list_of(greedy, id) +
         R"(,"greedy_margin":)" + list_of(margins, text_of) + R"(,"top":)" +
         list_of(tops, [](const std::string& top) { return top; }) + '}';
}

}  // namespace

std::string continue_greedily(std::shared_ptr<const runner::loaded_model> model,
                              std::span<const std::vector<std::int32_t>> prompts,
                              const greedy_options& options) {
  std::size_t longest = 0;
  for (const auto& prompt : prompts) longest = std::max(longest, prompt.size());
  session run(std::move(model), options, longest + static_cast<std::size_t>(options.steps));
  return R"({"cases":)" +
         list_of(prompts, [&](const std::vector<std::int32_t>& p) { return continue_one(run, p, options); }) +
         "}\n";
}

}  // namespace weir::tests::gguf
