#include "gateway/upstream/reply_reader.hpp"

#include <algorithm>

#include "gateway/upstream/client_pool.hpp"

namespace weir::gateway::upstream {
namespace {

constexpr std::size_t k_read_bytes_min = http::k_idle_buffer_bytes;
constexpr std::size_t k_read_bytes_max = http::k_body_buffer_bytes;
constexpr std::size_t k_kept_bytes_max = 4 << 10;  // of joined pieces, between two reads

}  // namespace

reply_reader::reply_reader(held_link link, const reply_start& start, std::shared_ptr<const origin> target)
    : link_(std::move(link)),
      target_(std::move(target)),
      body_(start.framing, start.content_length),
      keep_alive_(start.keep_alive),
      read_bytes_max_(k_read_bytes_min) {
  if (start.content_encoding == "gzip" || start.content_encoding == "x-gzip" ||
      start.content_encoding == "deflate") {
    inflater_.emplace();
  } else if (!start.content_encoding.empty() && start.content_encoding != "identity") {
    fail("used a content coding that nobody asked for");
  }
  if (start.framing == http::reply_framing::content_length && start.content_length > k_read_bytes_min) {
    read_bytes_max_ = k_read_bytes_max;
  }
}

reply_reader::~reply_reader() {
  recycle();
}

std::optional<read_outcome> reply_reader::ready(std::size_t bytes_max, std::string_view& out) {
  out = {};
  if (pieces_.capacity() > k_kept_bytes_max) std::string().swap(pieces_);
  while (true) {
    if (ended_) {
      recycle();
      return read_outcome::end;
    }
    if (!why_.empty()) return read_outcome::broken;
    const read_outcome taken = take_unread(bytes_max, out);
    if (taken != read_outcome::data || !out.empty()) return taken;
    if (!ended_) return std::nullopt;
  }
}

task<http::wait_outcome> reply_reader::wait(time_point deadline) {
  return link_->wait_bytes(deadline, std::max(read_bytes_max_, link_->unread().size() + 1));
}

task<http::wait_outcome> reply_reader::wait_while_alive(time_point deadline) {
  const auto room = std::max(read_bytes_max_, link_->unread().size() + 1);
  const auto outcome = co_await wait_patiently(*link_, target_, patience::while_alive, deadline, room);
  frozen_ = outcome.frozen;
  co_return outcome.what;
}

std::optional<read_outcome> reply_reader::waited(http::wait_outcome outcome) {
  if (outcome == http::wait_outcome::timeout) return read_outcome::timeout;
  if (outcome == http::wait_outcome::closed) {
    const bool whole =
        body_.ends_at_eof() && link_->ended_in_order() && (!inflater_ || inflater_->finished());
    if (!whole) return fail("closed the connection within its reply");
    ended_ = true;
  } else if (link_->unread().size() >= read_bytes_max_) {
    // Full reads ask for larger ones, so that a stream of small events keeps a small buffer.
    read_bytes_max_ = k_read_bytes_max;
  }
  return std::nullopt;
}

task<read_outcome> reply_reader::next(time_point deadline, std::size_t bytes_max, std::string_view& out,
                                      patience how) {
  while (true) {
    if (const auto now = ready(bytes_max, out)) co_return *now;
    auto woken = how == patience::while_alive ? wait_while_alive(deadline) : wait(deadline);
    const auto outcome = co_await std::move(woken);
    if (const auto end = waited(outcome)) co_return *end;
  }
}

// Everything unread at once: a burst of small chunks becomes one piece.
read_outcome reply_reader::take_unread(std::size_t bytes_max, std::string_view& out) {
  using kind = http::chunk_step::kind;
  std::string_view first;
  bool joined = false;
  pieces_.clear();
  while (true) {
    const http::chunk_step step = body_.decode(link_->unread());
    link_->consume(step.consumed);
    if (step.what == kind::data) {
      if (first.empty() && !joined) {
        first = step.data;
        continue;
      }
      if (!joined) pieces_.assign(first);
      joined = true;
      pieces_.append(step.data);
      continue;
    }
    const std::string_view piece = joined ? std::string_view(pieces_) : first;
    if (step.what == kind::done) {
      ended_ = true;
    } else if (step.what == kind::reject) {
      fail("broke the framing of its reply");
      if (piece.empty()) return read_outcome::broken;
    }
    return decode(piece, bytes_max, out);
  }
}

read_outcome reply_reader::decode(std::string_view piece, std::size_t bytes_max, std::string_view& out) {
  out = piece;
  if (!inflater_) return read_outcome::data;
  inflated_.clear();
  if (!inflater_->inflate(piece, inflated_, bytes_max))
    return fail("sent a compressed reply that cannot be read");
  if (ended_ && !inflater_->finished()) return fail("ended its compressed reply too early");
  out = inflated_;
  return read_outcome::data;
}

read_outcome reply_reader::fail(std::string_view why) noexcept {
  why_ = why;
  keep_alive_ = false;
  return read_outcome::broken;
}

// Not before the last piece was let go: it may view into the connection's buffer.
void reply_reader::recycle() {
  if (!ended_ || !link_ || !keep_alive_ || !link_->unread().empty() || link_->broken()) return;
  link_->shrink();
  const io_executor executor = link_->executor();
  client_pool::of(executor).give(target_, link_.release());
}

}  // namespace weir::gateway::upstream
