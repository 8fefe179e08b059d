#include "loadtest/replay/workload.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace weir::loadtest::replay {

namespace {

// The standard's distributions differ between libraries; these do not.
class dice {
 public:
  explicit dice(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ULL + 1) {}

  std::uint64_t word() noexcept {
    std::uint64_t x = state_ += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  }
  double share() noexcept { return static_cast<double>(word() >> 11) * 0x1p-53; }
  double between(double low, double high) noexcept { return low + (high - low) * share(); }
  std::size_t below(std::size_t n) noexcept { return static_cast<std::size_t>(word() % n); }
  double waiting(double mean) noexcept { return -mean * std::log(1 - share()); }
  // Sizes of prompts have heavy tails: log-normal around `median`.
  std::size_t blocks(double median, double spread, std::size_t most) noexcept {
    const double normal = std::sqrt(-2 * std::log(1 - share())) * std::cos(2 * std::numbers::pi * share());
    const double size = median * std::exp(spread * normal);
    return std::clamp<std::size_t>(static_cast<std::size_t>(size), 1, most);
  }

 private:
  std::uint64_t state_;
};

using chain = std::vector<std::uint64_t>;

void grow(chain& blocks, std::size_t count, dice& random) {
  for (std::size_t i = 0; i < count; ++i) blocks.push_back(random.word() >> 1);
}

struct session {
  chain history;
  double next_s = 0;
  double pause_s = 0;
  std::size_t turns = 0;
};

class generator {
 public:
  explicit generator(const workload_options& options) : options_(options), random_(options.seed) {
    double total = 0;
    for (double& w : weights_) total += w = random_.waiting(1);
    for (double& w : weights_) w /= total;
    const std::size_t roots = 1 + random_.below(40);
    for (std::size_t i = 0; i < roots; ++i) {
      roots_.emplace_back();
      grow(roots_.back(), random_.blocks(8, 1.0, 120), random_);
    }
    const std::size_t documents = 5 + random_.below(120);
    for (std::size_t i = 0; i < documents; ++i) {
      documents_.emplace_back();
      grow(documents_.back(), random_.blocks(60, 0.6, 240), random_);
    }
    pause_s_ = random_.between(5, 60);
    popularity_ = random_.between(0.5, 2.5);
  }

  std::vector<trace_request> run() {
    const double load = random_.between(options_.load_min, options_.load_max);
    const double wanted = load * options_.blocks_per_s * options_.duration_s;
    std::size_t blocks = 0;
    while (static_cast<double>(blocks) < wanted) blocks += add_one();
    std::stable_sort(out_.begin(), out_.end(),
                     [](const trace_request& a, const trace_request& b) { return a.at_s < b.at_s; });
    return std::move(out_);
  }

 private:
  std::size_t popular(std::size_t n) noexcept {
    return std::min(
        n - 1, static_cast<std::size_t>(std::pow(random_.share(), popularity_) * static_cast<double>(n)));
  }

  std::size_t emit(double at_s, const chain& blocks) {
    const auto tokens = static_cast<std::int64_t>(blocks.size()) * k_trace_block_tokens;
    const auto last = static_cast<std::int64_t>(random_.below(k_trace_block_tokens));
    out_.push_back({.at_s = std::floor(at_s * 1000) / 1000,
                    .input_tokens = tokens - last,
                    .output_tokens = static_cast<std::int64_t>(random_.blocks(250, 0.8, 8000)),
                    .blocks = blocks});
    return blocks.size();
  }

  std::size_t add_one() {
    const double at_s = random_.share() * options_.duration_s;
    const double kind = random_.share();
    if (kind < weights_[0]) {
      chain prompt = roots_[popular(roots_.size())];
      grow(prompt, random_.blocks(3, 0.8, 60), random_);
      return emit(at_s, prompt);
    }
    if (kind < weights_[0] + weights_[1]) {
      const auto& whole = documents_[popular(documents_.size())];
      const bool deep = random_.share() < 0.7;
      chain prompt(whole.begin(),
                   whole.end() - static_cast<std::ptrdiff_t>(deep ? 0 : random_.below(whole.size())));
      grow(prompt, random_.blocks(2, 0.7, 20), random_);
      return emit(at_s, prompt);
    }
    if (kind < weights_[0] + weights_[1] + weights_[2]) return add_agent(at_s);
    chain prompt;
    grow(prompt, random_.blocks(12, 1.0, 240), random_);
    return emit(at_s, prompt);
  }

  std::size_t add_agent(double at_s) {
    session s{.history = roots_[popular(roots_.size())], .next_s = at_s, .pause_s = pause_s_};
    s.turns = 3 + random_.below(30);
    std::size_t blocks = 0;
    for (std::size_t t = 0; t < s.turns && s.next_s < options_.duration_s; ++t) {
      grow(s.history, random_.blocks(2, 0.9, 40), random_);
      blocks += emit(s.next_s, s.history);
      s.next_s += 1 + random_.waiting(s.pause_s);
    }
    return blocks;
  }

  workload_options options_;
  dice random_;
  double weights_[4] = {};
  std::vector<chain> roots_;
  std::vector<chain> documents_;
  double pause_s_ = 0;
  double popularity_ = 1;
  std::vector<trace_request> out_;
};

}  // namespace

std::vector<trace_request> make_workload(const workload_options& options) {
  return generator(options).run();
}

}  // namespace weir::loadtest::replay
