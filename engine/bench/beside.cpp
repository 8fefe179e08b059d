#include "engine/bench/beside.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/serve_model.hpp"

namespace weir::engine::bench {

namespace {

using clock = std::chrono::steady_clock;

// When each token of a sequence came.
class token_times final : public event_sink {
 public:
  void on_token(const token_event&) noexcept override {
    const std::lock_guard lock(mutex_);
    if (times_.size() < times_.capacity()) times_.push_back(clock::now());
    changed_.notify_all();
  }
  void on_finished(finish_reason) noexcept override {
    const std::lock_guard lock(mutex_);
    finished_ = true;
    changed_.notify_all();
  }

  explicit token_times(std::size_t tokens_max) { times_.reserve(tokens_max); }

  // False where it ended before.
  bool wait_tokens(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return finished_ || times_.size() >= count; });
    return times_.size() >= count;
  }
  std::vector<clock::time_point> times() const {
    const std::lock_guard lock(mutex_);
    return times_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<clock::time_point> times_;
  bool finished_ = false;
};

// Any tokens: their embeddings are as different as those of a text.
generate_request make_request(std::uint64_t& state, std::int32_t vocabulary, std::int32_t tokens,
                              std::int32_t max_new) {
  generate_request out;
  out.max_new_tokens = max_new;
  for (std::int32_t i = 0; i < tokens; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    out.prompt.push_back(static_cast<std::int32_t>((state >> 33) % static_cast<std::uint64_t>(vocabulary)));
  }
  return out;
}

// Gaps that end in (from, to].
gap_summary summarize(const std::vector<std::shared_ptr<token_times>>& all, clock::time_point from,
                      clock::time_point to) {
  std::vector<double> gaps;
  for (const auto& one : all) {
    const auto times = one->times();
    for (std::size_t i = 1; i < times.size(); ++i) {
      if (times[i] > from && times[i] <= to)
        gaps.push_back(std::chrono::duration<double>(times[i] - times[i - 1]).count());
    }
  }
  if (gaps.empty()) return {};
  std::ranges::sort(gaps);
  const auto at = [&gaps](double share) {
    return gaps[static_cast<std::size_t>(share * static_cast<double>(gaps.size() - 1))];
  };
  return {static_cast<std::int64_t>(gaps.size()), at(0.5), at(0.95), gaps.back()};
}

// Seconds to its first token.
result<double> first_token(engine& on, generate_request request) {
  const auto sink = std::make_shared<token_times>(1);
  const auto begun = clock::now();
  request.sampling.logit_bias = {{on.info().eos_token, -100.0F}};  // it is to have a first token
  if (const auto id = on.submit(std::move(request), sink); !id) return std::unexpected(id.error());
  if (!sink->wait_tokens(1)) return fail(errc::stopped, "the prompt failed");
  return std::chrono::duration<double>(sink->times().front() - begun).count();
}

}  // namespace

result<beside_report> measure_beside(std::shared_ptr<const runner::loaded_model> model,
                                     const beside_options& options) {
  const auto tell = [&options](const char* what) {
    if (options.progress) options.progress(what);
  };
  engine_config config = options.engine;
  config.prefix_cache.enabled = false;
  auto opened = serve_model(config, std::move(model));
  if (!opened) return std::unexpected(opened.error());
  engine& on = **opened;
  const std::int32_t vocabulary = on.info().vocab_size;
  const std::int32_t rest = on.info().context_tokens - options.context_tokens;
  std::uint64_t state = 1;
  beside_report out;
  tell("the prompt alone");
  const auto alone = first_token(on, make_request(state, vocabulary, options.prompt_tokens, 1));
  if (!alone) return std::unexpected(alone.error());
  out.alone_s = *alone;

  tell("decode alone");
  std::vector<std::shared_ptr<token_times>> all;
  for (std::int32_t i = 0; i < options.sequences; ++i) {
    all.push_back(std::make_shared<token_times>(static_cast<std::size_t>(rest)));
    auto request = make_request(state, vocabulary, options.context_tokens, rest);
    // They must not end while they are looked at.
    request.sampling.logit_bias = {{on.info().eos_token, -100.0F}};
    if (const auto id = on.submit(std::move(request), all.back()); !id) return std::unexpected(id.error());
  }
  constexpr std::size_t k_settle_tokens = 4;
  const auto wait_all = [&all](std::size_t tokens) {
    return std::ranges::all_of(all, [tokens](const auto& one) { return one->wait_tokens(tokens); });
  };
  const auto calm = k_settle_tokens + static_cast<std::size_t>(options.calm_steps);
  const auto ended = fail(errc::stopped, "a sequence ended before the measurement did");
  if (!wait_all(k_settle_tokens)) return ended;
  const auto settled = clock::now();
  if (!wait_all(calm)) return ended;
  const auto came = clock::now();
  tell("the prompt beside decode");
  const auto beside = first_token(on, make_request(state, vocabulary, options.prompt_tokens, 1));
  if (!beside) return std::unexpected(beside.error());
  out.beside_s = *beside;
  const auto over = clock::now();
  tell("decode alone, behind it");
  for (const auto& one : all) {
    if (!one->wait_tokens(one->times().size() + static_cast<std::size_t>(options.calm_steps))) return ended;
  }
  const auto end = clock::now();
  on.stop();
  out.calm = summarize(all, settled, came);
  out.busy = summarize(all, came, over);
  out.after = summarize(all, over, end);
  return out;
}

}  // namespace weir::engine::bench
