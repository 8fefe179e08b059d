#include "engine/parallel/tcp_communicator.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <optional>
#include <utility>

#include "engine/parallel/tcp_join.hpp"

namespace weir::engine::parallel {

namespace {

enum kind : std::uint32_t {
  k_reduce_float = 16,
  k_reduce_double,
  k_gather,
  k_to_all,
  k_broadcast,
  k_exchange,
  k_lost,
  k_left
};

const char* to_text(link_fault fault) {
  switch (fault) {
    case link_fault::ended:
      return "its process ended, or the way to it";
    case link_fault::late:
      return k_was_late;
    case link_fault::garbled:
      break;
  }
  return k_went_astray;
}

class tcp_communicator final : public communicator {
 public:
  tcp_communicator(const tcp_options& options, std::vector<tcp_link> links)
      : rank_(options.rank),
        size_(options.size),
        step_timeout_(options.step_timeout),
        links_(std::move(links)) {}

  ~tcp_communicator() override {
    if (!lost_) tell_all({.kind = k_left}, {});
  }

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  void all_reduce(std::span<float> values) override { reduce(values, k_reduce_float); }
  void all_reduce(std::span<double> values) override { reduce(values, k_reduce_double); }
  void all_gather(const void* mine, void* all, std::span<const std::int64_t> bytes) override;
  void all_to_all(const void* out, std::span<const std::int64_t> out_bytes, void* in,
                  std::span<const std::int64_t> in_bytes) override;
  void broadcast(std::vector<std::byte>& message) override;
  void exchange(std::span<const std::byte> mine, std::span<std::byte> all, patience how) override;

  void check() override {
    throw_if_lost();
    for (int peer = 0; peer < size_; ++peer) {
      if (is_linked(peer) && link(peer).has_ended()) lose(peer, to_text(link_fault::ended));
    }
  }
  void abandon() noexcept override {
    if (lost_) return;
    lost_ = {rank_, k_gave_up};
    tell_loss();
  }

 private:
  struct loss {
    int rank;
    std::string why;
  };

  bool is_root() const noexcept { return rank_ == 0; }
  bool is_linked(int peer) const noexcept { return peer != rank_ && (is_root() || peer == 0); }
  tcp_link& link(int peer) { return links_[static_cast<std::size_t>(is_root() ? peer - 1 : 0)]; }

  void begin(patience how) {
    throw_if_lost();
    // Rank 0 sees who is late; the others are to hear it from there.
    const auto most = is_root() ? step_timeout_ : step_timeout_ + step_timeout_ / 2;
    deadline_ = how == patience::step ? link_deadline(link_clock::now() + most) : std::nullopt;
  }
  void send(int peer, frame_head head, std::span<const std::byte> body);
  frame_head receive_head(int peer, std::uint32_t kind, std::uint64_t amount);
  void receive(int peer, std::uint32_t kind, std::uint64_t amount, std::span<std::byte> body);
  // Every rank's bytes at rank 0, and what it makes of them at every rank.
  template <class Combine>
  void through_root(std::uint32_t kind, std::span<const std::byte> mine, std::span<std::byte> all,
                    Combine&& combine);
  template <class T>
  void reduce(std::span<T> values, std::uint32_t kind);

  [[noreturn]] void lose(int rank, std::string why);
  [[noreturn]] void hear_loss(int peer, const frame_head& head);
  void throw_if_lost() const {
    if (lost_) throw rank_lost(lost_->rank, lost_->why);
  }
  void tell_all(frame_head head, std::span<const std::byte> body) noexcept;
  void tell_loss() noexcept {
    tell_all({.kind = k_lost, .amount = static_cast<std::uint64_t>(lost_->rank)},
             std::as_bytes(std::span(lost_->why)));
  }

  int rank_;
  int size_;
  std::chrono::milliseconds step_timeout_;
  std::vector<tcp_link> links_;  // of rank 0 to 1, 2, ...; of the others to 0
  link_deadline deadline_;
  std::optional<loss> lost_;
  std::vector<std::byte> buffer_;
};

void tcp_communicator::tell_all(frame_head head, std::span<const std::byte> body) noexcept {
  // They may be stuck themselves: what the socket takes at once has to do.
  for (tcp_link& one : links_) static_cast<void>(one.send(head, body, link_clock::now()));
}

void tcp_communicator::lose(int rank, std::string why) {
  lost_ = {rank, std::move(why)};
  tell_loss();
  throw rank_lost(lost_->rank, lost_->why);
}

void tcp_communicator::hear_loss(int peer, const frame_head& head) {
  constexpr std::uint64_t k_why_max = 256;
  std::string why(std::min(head.bytes, k_why_max), ' ');
  const auto fault =
      link(peer).receive(std::as_writable_bytes(std::span(why)), link_clock::now() + std::chrono::seconds(1));
  const bool known = head.amount < static_cast<std::uint64_t>(size_);
  if (fault || !known) lose(peer, to_text(link_fault::garbled));
  lose(static_cast<int>(head.amount), readable(std::move(why)));
}

void tcp_communicator::send(int peer, frame_head head, std::span<const std::byte> body) {
  const auto fault = link(peer).send(head, body, deadline_);
  if (!fault) return;
  // Whoever has gone may have said why.
  frame_head last;
  if (*fault == link_fault::ended && !link(peer).receive(last, link_clock::now()) && last.kind == k_lost) {
    hear_loss(peer, last);
  }
  lose(peer, to_text(*fault));
}

frame_head tcp_communicator::receive_head(int peer, std::uint32_t kind, std::uint64_t amount) {
  frame_head head;
  if (const auto fault = link(peer).receive(head, deadline_)) lose(peer, to_text(*fault));
  if (head.kind == k_lost) hear_loss(peer, head);
  if (head.kind == k_left) lose(peer, to_text(link_fault::ended));
  if (head.kind != kind || head.amount != amount) lose(peer, to_text(link_fault::garbled));
  return head;
}

void tcp_communicator::receive(int peer, std::uint32_t kind, std::uint64_t amount,
                               std::span<std::byte> body) {
  const frame_head head = receive_head(peer, kind, amount);
  if (head.bytes != body.size()) lose(peer, to_text(link_fault::garbled));
  if (const auto fault = link(peer).receive(body, deadline_)) lose(peer, to_text(*fault));
}

template <class Combine>
void tcp_communicator::through_root(std::uint32_t kind, std::span<const std::byte> mine,
                                    std::span<std::byte> all, Combine&& combine) {
  if (!is_root()) {
    send(0, {.kind = kind, .amount = all.size()}, mine);
    return receive(0, kind, all.size(), all);
  }
  for (int peer = 0; peer < size_; ++peer) combine(peer);
  for (int peer = 1; peer < size_; ++peer) send(peer, {.kind = kind, .amount = all.size()}, all);
}

template <class T>
void tcp_communicator::reduce(std::span<T> values, std::uint32_t kind) {
  begin(patience::step);
  const auto bytes = std::as_writable_bytes(values);
  through_root(kind, bytes, bytes, [&](int peer) {
    if (peer == 0) return;
    buffer_.resize(bytes.size());
    receive(peer, kind, bytes.size(), buffer_);
    for (std::size_t i = 0; i < values.size(); ++i) {
      T more;
      std::memcpy(&more, buffer_.data() + i * sizeof(T), sizeof(T));
      values[i] += more;
    }
  });
}

void tcp_communicator::all_gather(const void* mine, void* all, std::span<const std::int64_t> bytes) {
  assert(bytes.size() == static_cast<std::size_t>(size_));
  begin(patience::step);
  const auto size_of = [&](int peer) {
    return static_cast<std::size_t>(bytes[static_cast<std::size_t>(peer)]);
  };
  const std::span<const std::byte> own(static_cast<const std::byte*>(mine), size_of(rank_));
  const std::span<std::byte> whole(static_cast<std::byte*>(all), static_cast<std::size_t>(sum_of(bytes)));
  std::size_t at = 0;
  through_root(k_gather, own, whole, [&](int peer) {
    const auto part = whole.subspan(at, size_of(peer));
    at += part.size();
    if (peer != 0) return receive(peer, k_gather, whole.size(), part);
    if (!own.empty()) std::memmove(part.data(), own.data(), own.size());
  });
}

// Rank 0 gets what each sends, its counts before it, and sends each what is for it.
void tcp_communicator::all_to_all(const void* out, std::span<const std::int64_t> out_bytes, void* in,
                                  std::span<const std::int64_t> in_bytes) {
  const auto size = static_cast<std::size_t>(size_);
  assert(out_bytes.size() == size && in_bytes.size() == size);
  begin(patience::step);
  const auto* const first = static_cast<const std::byte*>(out);
  const std::span<std::byte> wanted(static_cast<std::byte*>(in), static_cast<std::size_t>(sum_of(in_bytes)));
  if (!is_root()) {
    send(0, {.kind = k_to_all}, std::as_bytes(out_bytes));
    send(0, {.kind = k_to_all}, {first, static_cast<std::size_t>(sum_of(out_bytes))});
    return receive(0, k_to_all, 0, wanted);
  }
  std::vector<std::vector<std::int64_t>> counts(
      size, std::vector<std::int64_t>(out_bytes.begin(), out_bytes.end()));
  std::vector<std::vector<std::byte>> sent(size);
  for (std::size_t peer = 1; peer < size; ++peer) {
    receive(static_cast<int>(peer), k_to_all, 0, std::as_writable_bytes(std::span(counts[peer])));
    const auto negative = [](std::int64_t count) { return count < 0 || count > k_to_all_bytes_max; };
    if (std::ranges::any_of(counts[peer], negative))
      lose(static_cast<int>(peer), to_text(link_fault::garbled));
    sent[peer].resize(static_cast<std::size_t>(sum_of(counts[peer])));
    receive(static_cast<int>(peer), k_to_all, 0, sent[peer]);
  }
  const auto part = [&](std::size_t from, std::size_t to) {
    const auto at = static_cast<std::size_t>(sum_of(std::span(counts[from]).first(to)));
    return std::span((from == 0 ? first : sent[from].data()) + at,
                     static_cast<std::size_t>(counts[from][to]));
  };
  for (std::size_t to = size; to-- > 0;) {
    buffer_.clear();
    for (std::size_t from = 0; from < size; ++from) {
      if (to == 0 && counts[from][0] != in_bytes[from])
        lose(static_cast<int>(from), to_text(link_fault::garbled));
      const auto bytes = part(from, to);
      buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    }
    if (to > 0) send(static_cast<int>(to), {.kind = k_to_all}, buffer_);
  }
  std::ranges::copy(buffer_, wanted.begin());
}

void tcp_communicator::broadcast(std::vector<std::byte>& message) {
  if (is_root()) check_message(message.size());
  begin(is_root() ? patience::step : patience::idle);
  for (int peer = 1; is_root() && peer < size_; ++peer) send(peer, {.kind = k_broadcast}, message);
  if (is_root()) return;
  const frame_head head = receive_head(0, k_broadcast, 0);
  if (head.bytes > k_message_bytes_max) lose(0, to_text(link_fault::garbled));
  message.resize(head.bytes);
  begin(patience::step);
  if (const auto fault = link(0).receive(message, deadline_)) lose(0, to_text(*fault));
}

void tcp_communicator::exchange(std::span<const std::byte> mine, std::span<std::byte> all, patience how) {
  assert(mine.size() <= k_exchange_bytes_max && all.size() == mine.size() * static_cast<std::size_t>(size_));
  begin(how);
  through_root(k_exchange, mine, all, [&](int peer) {
    const auto part = all.subspan(mine.size() * static_cast<std::size_t>(peer), mine.size());
    if (peer != 0) return receive(peer, k_exchange, all.size(), part);
    std::ranges::copy(mine, part.begin());
  });
}

}  // namespace

result<std::unique_ptr<communicator>> join_by_tcp(const tcp_options& options) {
  auto links = join_links(options);
  if (!links) return std::unexpected(links.error());
  return std::make_unique<tcp_communicator>(options, std::move(*links));
}

}  // namespace weir::engine::parallel
