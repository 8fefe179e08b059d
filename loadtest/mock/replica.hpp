// What stands behind all of a mock's connections when it plays a replica in earnest: a queue of prefills that
// run one after another at a set rate, a limit of running requests, and the cache with its rules, whose
// changes are published as KV events. Its times add up from when a prefill could begin, so late timers delay
// no later request.
//
// Life of a request: submit → waits for its turn and a free place → `starts` says how much is cached and when
// the prefill is due → the owner calls prefilled() then → its place ends with the handle. Who leaves before
// keeps nothing in the cache. Any thread; `starts` is called under a lock and must only hand on what it is
// told.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "loadtest/mock/options.hpp"
#include "loadtest/truth/replica_cache.hpp"

namespace weir::loadtest::mock {

class kv_publisher;

struct prompt {
  std::vector<std::int32_t> tokens;
  std::string salt;
  std::vector<std::int64_t> checkpoint_at;  // hints, in tokens
};

struct replica_load {
  std::int64_t running = 0;
  std::int64_t waiting = 0;
  std::int64_t running_tokens = 0;
  std::int64_t waiting_tokens = 0;
  std::int64_t waiting_uncached_tokens = 0;
  std::int64_t cached_tokens = 0;  // that the pool holds, pages and checkpoints
};

class replica final {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  struct prefill {
    std::uint64_t number = 0;  // of the place
    std::int64_t cached_tokens = 0;
    time_point due;
  };
  using start_handler = std::function<void(const prefill&)>;

  // A request's place in the queue or among the running ones.
  class place final {
   public:
    place(replica& of, std::uint64_t number) : of_(&of), number_(number) {}
    place(place&& other) noexcept : of_(std::exchange(other.of_, nullptr)), number_(other.number_) {}
    place& operator=(place&&) = delete;
    ~place() {
      if (of_ != nullptr) of_->leave(number_);
    }
    std::uint64_t number() const noexcept { return number_; }

   private:
    replica* of_;
    std::uint64_t number_;
  };

  // Throws zmq::error_t where an endpoint of the events cannot be taken.
  explicit replica(const replica_options& options);
  ~replica();
  replica(const replica&) = delete;
  replica& operator=(const replica&) = delete;

  place submit(prompt asked, start_handler starts);
  void prefilled(std::uint64_t number);
  void clear_cache();

  double token_ms() const;  // from one token of a request to its next, at the present load
  replica_load load() const;
  const replica_options& options() const noexcept { return options_; }
  const kv_publisher* publisher() const noexcept { return publisher_.get(); }

 private:
  enum class phase : std::uint8_t {
    waiting,
    prefilling,
    decoding
  };  // in this order; left by leave() from each
  struct request {
    prompt asked;
    std::vector<truth::block_id> chain;
    start_handler starts;
    time_point submitted;
    truth::cache_match match;
    std::int64_t tokens = 0;
    phase at = phase::waiting;
  };

  void leave(std::uint64_t number);
  void start_next();
  void store(request& one);
  std::vector<std::size_t> hints_of(const request& one) const;

  const replica_options options_;
  std::unique_ptr<kv_publisher> publisher_;
  mutable std::mutex mutex_;  // of what follows
  truth::replica_cache cache_;
  std::map<std::uint64_t, request> requests_;
  std::deque<std::uint64_t> waiting_;
  std::uint64_t last_number_ = 0;
  std::int64_t running_ = 0;
  bool is_prefilling_ = false;
  time_point prefill_free_at_;
  time_point place_free_at_;
  std::vector<truth::cache_change> changes_;
};

}  // namespace weir::loadtest::mock
