#include "loadtest/mock/replica.hpp"

#include <algorithm>

#include "loadtest/mock/kv_batch.hpp"
#include "loadtest/mock/kv_publisher.hpp"
#include "loadtest/mock/prompt_tokens.hpp"

namespace weir::loadtest::mock {

namespace {

using clock = std::chrono::steady_clock;

double now_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

replica::replica(const replica_options& options) : options_(options), cache_(options.cache) {
  if (!options_.events.endpoint.empty()) publisher_ = std::make_unique<kv_publisher>(options_.events);
}

replica::~replica() = default;

replica::place replica::submit(prompt asked, start_handler starts) {
  request one;
  one.tokens = static_cast<std::int64_t>(asked.tokens.size());
  one.chain = block_chain(asked.tokens, static_cast<std::size_t>(options_.cache.page_tokens), asked.salt);
  one.asked = std::move(asked);
  one.starts = std::move(starts);
  one.submitted = clock::now();
  const std::lock_guard lock(mutex_);
  const auto number = ++last_number_;
  requests_.emplace(number, std::move(one));
  waiting_.push_back(number);
  start_next();
  return {*this, number};
}

void replica::start_next() {
  if (is_prefilling_ || waiting_.empty() || running_ >= options_.batch) return;
  const auto number = waiting_.front();
  waiting_.pop_front();
  auto& one = requests_.at(number);
  one.at = phase::prefilling;
  one.match = cache_.match(one.chain);
  ++running_;
  is_prefilling_ = true;
  const auto cached = static_cast<std::int64_t>(one.match.reusable) * options_.cache.page_tokens;
  auto due = std::max({one.submitted, prefill_free_at_, place_free_at_});
  if (options_.prefill_tokens_per_s > 0) {
    const std::chrono::duration<double> work(static_cast<double>(one.tokens - cached) /
                                             options_.prefill_tokens_per_s);
    due += std::chrono::duration_cast<clock::duration>(work);
  }
  prefill_free_at_ = due;
  one.starts({number, cached, due});
  one.starts = nullptr;
}

void replica::prefilled(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = requests_.find(number);
  if (found == requests_.end() || found->second.at != phase::prefilling) return;
  found->second.at = phase::decoding;
  is_prefilling_ = false;
  store(found->second);
  start_next();
}

void replica::store(request& one) {
  changes_.clear();
  const auto hints = hints_of(one);
  cache_.store(one.chain, one.match, hints, publisher_ ? &changes_ : nullptr);
  if (publisher_) {
    const prompt_state state{one.asked.tokens, one.chain, one.asked.salt,
                             static_cast<std::size_t>(options_.cache.page_tokens), one.match.reusable};
    auto batch = write_kv_batch(options_.form, state, changes_, !options_.cache.dense, now_s());
    if (!batch.empty()) publisher_->publish(std::move(batch));
  }
  one.asked = {};
  one.chain = {};
}

std::vector<std::size_t> replica::hints_of(const request& one) const {
  std::vector<std::size_t> out;
  if (!options_.accepts_hints) return out;
  for (const auto at : one.asked.checkpoint_at) {
    const auto boundary = static_cast<std::size_t>(at / options_.cache.page_tokens);
    if (boundary > 0 && std::find(out.begin(), out.end(), boundary) == out.end()) out.push_back(boundary);
  }
  std::sort(out.begin(), out.end());
  return out;
}

void replica::leave(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = requests_.find(number);
  if (found == requests_.end()) return;
  const auto now = clock::now();
  if (found->second.at == phase::waiting) {
    waiting_.erase(std::find(waiting_.begin(), waiting_.end(), number));
  } else {
    if (running_-- == options_.batch) place_free_at_ = now;
    if (found->second.at == phase::prefilling) {
      is_prefilling_ = false;
      prefill_free_at_ = now;
    }
  }
  requests_.erase(found);
  start_next();
}

void replica::clear_cache() {
  const std::lock_guard lock(mutex_);
  cache_.clear();
  for (auto& [number, one] : requests_)
    if (one.at == phase::prefilling) one.match = {};
  if (publisher_) publisher_->publish(write_cleared_batch(options_.form, now_s()));
}

double replica::token_ms() const {
  const std::lock_guard lock(mutex_);
  return options_.decode_ms + options_.decode_per_request_ms * static_cast<double>(running_);
}

replica_load replica::load() const {
  const std::lock_guard lock(mutex_);
  replica_load out;
  out.running = running_;
  out.waiting = static_cast<std::int64_t>(waiting_.size());
  out.cached_tokens = cache_.used_tokens();
  for (const auto& [number, one] : requests_) {
    if (one.at == phase::waiting) {
      const auto reusable = static_cast<std::int64_t>(cache_.match(one.chain).reusable);
      out.waiting_tokens += one.tokens;
      out.waiting_uncached_tokens += one.tokens - reusable * options_.cache.page_tokens;
    } else {
      out.running_tokens += one.tokens;
    }
  }
  return out;
}

}  // namespace weir::loadtest::mock
