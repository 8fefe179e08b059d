#include "engine/parallel/shm_communicator.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <climits>
#include <cstring>
#include <thread>
#include <utility>

namespace weir::engine::parallel {

namespace {

using clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds k_spin{50};            // about what being woken takes
constexpr std::chrono::milliseconds k_look_interval{50};   // at who lives, while a step runs
constexpr std::chrono::milliseconds k_idle_interval{250};  // and while there is none
constexpr std::uint32_t k_rank_mask = 0xFFFF;
constexpr int k_reason_shift = 16;

enum class reason : std::uint32_t { ended, late, gave_up, out_of_step };

enum class operation : std::uint64_t {
  join,
  reduce_float,
  reduce_double,
  gather,
  to_all,
  broadcast,
  exchange
};

static_assert(sizeof(std::int64_t) * k_ranks_max <= k_chunk_bytes && k_exchange_bytes_max <= k_chunk_bytes);
static_assert(k_ranks_max < static_cast<int>(k_rank_mask));

std::uint64_t tag_of(operation what, std::uint64_t amount) {
  return (static_cast<std::uint64_t>(what) << 56) | (amount & 0xFF'FFFF'FFFF'FFFF);
}

void sleep_on(std::atomic<std::uint32_t>& word, std::uint32_t seen, std::chrono::milliseconds at_most) {
  const timespec wait{.tv_sec = at_most.count() / 1000, .tv_nsec = at_most.count() % 1000 * 1'000'000};
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, seen, &wait, nullptr, 0);
}

void wake_all(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// What two ranges of a stream share: [from, to), empty where to <= from.
struct overlap {
  std::int64_t from;
  std::int64_t to;
};
overlap shared_part(std::int64_t a, std::int64_t a_end, std::int64_t b, std::int64_t b_end) {
  return {std::max(a, b), std::min(a_end, b_end)};
}

class shm_communicator final : public communicator {
 public:
  shm_communicator(const shm_options& options, std::unique_ptr<shm_region> region)
      : rank_(options.rank),
        size_(options.size),
        step_timeout_(options.step_timeout),
        spins_(std::cmp_less_equal(options.size, std::thread::hardware_concurrency())),
        region_(std::move(region)) {}

  ~shm_communicator() override {
    if (region_->lost().load() == 0) region_->slot(rank_).left.store(1);
  }

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }

  result<void> join(std::chrono::milliseconds timeout);

  void all_reduce(std::span<float> values) override { reduce(values, operation::reduce_float); }
  void all_reduce(std::span<double> values) override { reduce(values, operation::reduce_double); }
  void all_gather(const void* mine, void* all, std::span<const std::int64_t> bytes) override;
  void all_to_all(const void* out, std::span<const std::int64_t> out_bytes, void* in,
                  std::span<const std::int64_t> in_bytes) override;
  void broadcast(std::vector<std::byte>& message) override;
  void exchange(std::span<const std::byte> mine, std::span<std::byte> all, patience how) override;

  void check() override {
    throw_if_lost();
    for (int peer = 0; peer < size_; ++peer) {
      if (peer != rank_ && !region_->lives(peer)) lose(peer, reason::ended);
    }
  }
  void abandon() noexcept override { mark_lost(rank_, reason::gave_up); }

 private:
  template <class T>
  void reduce(std::span<T> values, operation what);

  void begin(operation what, std::uint64_t amount, patience how);
  void set_patience(patience how);
  void meet();
  std::byte* own_chunk() noexcept { return region_->chunk(rank_, round_); }
  const std::byte* chunk_of(int rank) noexcept { return region_->chunk(rank, round_ - 1); }

  bool has_posted(int peer, std::uint32_t rounds) noexcept {
    return static_cast<std::int32_t>(region_->slot(peer).posted.load(std::memory_order_acquire) - rounds) >=
           0;
  }
  bool spin(int peer, std::uint32_t rounds) noexcept;
  void wait_for(int peer, std::uint32_t rounds);
  void look(int awaited);
  void mark_lost(int rank, reason why) noexcept;
  [[noreturn]] void lose(int rank, reason why);
  void throw_if_lost();

  int rank_;
  int size_;
  std::chrono::milliseconds step_timeout_;
  bool spins_;
  std::unique_ptr<shm_region> region_;
  std::uint32_t round_ = 0;  // rounds met
  std::uint64_t tag_ = 0;    // of the operation under way
  bool joining_ = false;
  patience patience_ = patience::step;
  clock::time_point deadline_;
};

// Those that are not there yet are no loss.
result<void> shm_communicator::join(std::chrono::milliseconds timeout) {
  region_->slot(rank_).joined.store(1);
  tag_ = tag_of(operation::join, 0);
  joining_ = true;
  patience_ = patience::step;
  deadline_ = clock::now() + timeout;
  try {
    meet();
  } catch (const rank_lost& lost) {
    return fail(errc::io, "the ranks did not come together: " + std::string(lost.what()));
  }
  joining_ = false;
  region_->unlink();
  return {};
}

void shm_communicator::begin(operation what, std::uint64_t amount, patience how) {
  throw_if_lost();
  tag_ = tag_of(what, amount);
  set_patience(how);
}

void shm_communicator::set_patience(patience how) {
  patience_ = how;
  if (how == patience::step) deadline_ = clock::now() + step_timeout_;
}

void shm_communicator::meet() {
  rank_slot& mine = region_->slot(rank_);
  mine.tags[round_ % 2].store(tag_, std::memory_order_relaxed);
  mine.posted.store(round_ + 1);
  if (mine.waiters.load() != 0) wake_all(mine.posted);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    wait_for(peer, round_ + 1);
    if (region_->slot(peer).tags[round_ % 2].load(std::memory_order_relaxed) != tag_) {
      lose(peer, reason::out_of_step);
    }
  }
  ++round_;
}

bool shm_communicator::spin(int peer, std::uint32_t rounds) noexcept {
  if (has_posted(peer, rounds)) return true;
  if (!spins_) return false;
  const auto until = clock::now() + k_spin;
  do {
    for (int i = 0; i < 16; ++i) {
      if (has_posted(peer, rounds)) return true;
      __builtin_ia32_pause();
    }
  } while (clock::now() < until);
  return false;
}

void shm_communicator::wait_for(int peer, std::uint32_t rounds) {
  if (spin(peer, rounds)) return;
  rank_slot& other = region_->slot(peer);
  while (!has_posted(peer, rounds)) {
    other.waiters.fetch_add(1);
    const std::uint32_t seen = other.posted.load();
    if (static_cast<std::int32_t>(seen - rounds) < 0) {
      sleep_on(other.posted, seen, patience_ == patience::idle ? k_idle_interval : k_look_interval);
    }
    other.waiters.fetch_sub(1);
    if (!has_posted(peer, rounds)) look(peer);
  }
}

void shm_communicator::look(int awaited) {
  throw_if_lost();
  for (int peer = 0; peer < size_; ++peer) {
    const rank_slot& other = region_->slot(peer);
    if (peer == rank_ || (joining_ && other.joined.load() == 0) || region_->lives(peer)) continue;
    // It may have done its part, and left in order, since.
    if (peer == awaited ? has_posted(peer, round_ + 1) : other.left.load() != 0) continue;
    lose(peer, reason::ended);
  }
  if (patience_ == patience::step && clock::now() > deadline_) lose(awaited, reason::late);
}

void shm_communicator::mark_lost(int rank, reason why) noexcept {
  std::uint32_t none = 0;
  const auto word =
      static_cast<std::uint32_t>(rank + 1) | (static_cast<std::uint32_t>(why) << k_reason_shift);
  region_->lost().compare_exchange_strong(none, word);
  for (int peer = 0; peer < size_; ++peer) wake_all(region_->slot(peer).posted);
}

void shm_communicator::lose(int rank, reason why) {
  mark_lost(rank, why);
  throw_if_lost();
  throw rank_lost(rank, "for no reason");  // not reached: the word is set by now
}

void shm_communicator::throw_if_lost() {
  const std::uint32_t word = region_->lost().load();
  if (word == 0) return;
  const int rank = static_cast<int>(word & k_rank_mask) - 1;
  switch (static_cast<reason>(word >> k_reason_shift)) {
    case reason::ended:
      throw rank_lost(rank, "its process ended");
    case reason::late:
      throw rank_lost(rank, k_was_late);
    case reason::gave_up:
      throw rank_lost(rank, k_gave_up);
    case reason::out_of_step:
      break;
  }
  throw rank_lost(rank, k_went_astray);
}

template <class T>
void shm_communicator::reduce(std::span<T> values, operation what) {
  begin(what, values.size_bytes(), patience::step);
  constexpr std::size_t k_values = k_chunk_bytes / sizeof(T);
  for (std::size_t first = 0; first < values.size(); first += k_values) {
    const std::span<T> part = values.subspan(first, std::min(k_values, values.size() - first));
    std::memcpy(own_chunk(), part.data(), part.size_bytes());
    meet();
    std::memcpy(part.data(), chunk_of(0), part.size_bytes());
    for (int peer = 1; peer < size_; ++peer) {
      const T* const more = reinterpret_cast<const T*>(chunk_of(peer));
      for (std::size_t i = 0; i < part.size(); ++i) part[i] += more[i];
    }
  }
}

void shm_communicator::all_gather(const void* mine, void* all, std::span<const std::int64_t> bytes) {
  assert(bytes.size() == static_cast<std::size_t>(size_));
  begin(operation::gather, static_cast<std::uint64_t>(sum_of(bytes)), patience::step);
  constexpr auto k_chunk = static_cast<std::int64_t>(k_chunk_bytes);
  const std::int64_t longest = *std::max_element(bytes.begin(), bytes.end());
  const auto part = [&](int peer, std::int64_t first) {
    return std::clamp<std::int64_t>(bytes[static_cast<std::size_t>(peer)] - first, 0, k_chunk);
  };
  for (std::int64_t first = 0; first < longest; first += k_chunk) {
    if (const auto count = part(rank_, first); count > 0) {
      std::memcpy(own_chunk(), static_cast<const std::byte*>(mine) + first, static_cast<std::size_t>(count));
    }
    meet();
    std::int64_t at = first;
    for (int peer = 0; peer < size_; ++peer) {
      if (const auto count = part(peer, first); count > 0) {
        std::memcpy(static_cast<std::byte*>(all) + at, chunk_of(peer), static_cast<std::size_t>(count));
      }
      at += bytes[static_cast<std::size_t>(peer)];
    }
  }
}

// Each rank's stream is its counts, then its parts.
void shm_communicator::all_to_all(const void* out, std::span<const std::int64_t> out_bytes, void* in,
                                  std::span<const std::int64_t> in_bytes) {
  const auto size = static_cast<std::size_t>(size_);
  assert(out_bytes.size() == size && in_bytes.size() == size);
  begin(operation::to_all, 0, patience::step);
  constexpr auto k_chunk = static_cast<std::int64_t>(k_chunk_bytes);
  const auto head = static_cast<std::int64_t>(size * sizeof(std::int64_t));
  const std::int64_t own_end = head + sum_of(out_bytes);
  struct incoming {
    std::int64_t from = 0, to = 0, place = 0;  // of its stream; in `in`
  };
  std::vector<incoming> parts(size);
  std::int64_t longest = own_end;
  for (std::int64_t first = 0; first < longest; first += k_chunk) {
    if (first == 0) std::memcpy(own_chunk(), out_bytes.data(), out_bytes.size_bytes());
    if (const auto now = shared_part(first, first + k_chunk, head, own_end); now.from < now.to) {
      std::memcpy(own_chunk() + (now.from - first), static_cast<const std::byte*>(out) + (now.from - head),
                  static_cast<std::size_t>(now.to - now.from));
    }
    meet();
    std::int64_t place = 0;
    for (std::size_t peer = 0; peer < size; ++peer) {
      incoming& part = parts[peer];
      if (first == 0) {
        std::vector<std::int64_t> counts(size);
        std::memcpy(counts.data(), chunk_of(static_cast<int>(peer)), size * sizeof(std::int64_t));
        const auto me = static_cast<std::size_t>(rank_);
        if (counts[me] != in_bytes[peer]) lose(static_cast<int>(peer), reason::out_of_step);
        part.from = head + sum_of(std::span(counts).first(me));
        part.to = part.from + counts[me];
        part.place = place;
        place += counts[me];
        longest = std::max(longest, head + sum_of(counts));
      }
      const auto now = shared_part(first, first + k_chunk, part.from, part.to);
      if (now.from >= now.to) continue;
      std::memcpy(static_cast<std::byte*>(in) + part.place + (now.from - part.from),
                  chunk_of(static_cast<int>(peer)) + (now.from - first),
                  static_cast<std::size_t>(now.to - now.from));
    }
  }
}

void shm_communicator::broadcast(std::vector<std::byte>& message) {
  if (rank_ == 0) check_message(message.size());
  begin(operation::broadcast, 0, rank_ == 0 ? patience::step : patience::idle);
  constexpr std::size_t k_head = sizeof(std::uint64_t);
  std::uint64_t size = message.size();
  std::size_t done = 0;
  for (bool first = true; first || done < size; first = false) {
    const std::size_t head = first ? k_head : 0;
    std::size_t count = std::min<std::size_t>(k_chunk_bytes - head, size - done);
    if (rank_ == 0) {
      if (first) std::memcpy(own_chunk(), &size, k_head);
      if (count > 0) std::memcpy(own_chunk() + head, message.data() + done, count);
    }
    meet();
    if (rank_ != 0) {
      if (first) {
        std::memcpy(&size, chunk_of(0), k_head);
        if (size > k_message_bytes_max) lose(0, reason::out_of_step);
        message.resize(size);
        count = std::min<std::size_t>(k_chunk_bytes - head, size);
        set_patience(patience::step);
      }
      if (count > 0) std::memcpy(message.data() + done, chunk_of(0) + head, count);
    }
    done += count;
  }
}

void shm_communicator::exchange(std::span<const std::byte> mine, std::span<std::byte> all, patience how) {
  assert(mine.size() <= k_exchange_bytes_max && all.size() == mine.size() * static_cast<std::size_t>(size_));
  begin(operation::exchange, mine.size(), how);
  std::copy(mine.begin(), mine.end(), own_chunk());
  meet();
  for (int peer = 0; peer < size_; ++peer) {
    std::copy_n(chunk_of(peer), mine.size(), all.begin() + static_cast<std::ptrdiff_t>(mine.size()) * peer);
  }
}

}  // namespace

result<std::unique_ptr<communicator>> join_by_shared_memory(const shm_options& options) {
  auto region = shm_region::open(options);
  if (!region) return std::unexpected(region.error());
  auto out = std::make_unique<shm_communicator>(options, std::move(*region));
  if (auto joined = out->join(options.join_timeout); !joined) return std::unexpected(joined.error());
  return out;
}

}  // namespace weir::engine::parallel
