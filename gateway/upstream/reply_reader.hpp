// Reads a reply's body off its connection: framing and content coding undone. When the body has ended in
// order and nothing came behind it, the connection goes back to its pool. One request, one I/O thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gateway/http/inflater.hpp"
#include "gateway/http/reply_body.hpp"
#include "gateway/upstream/http_exchange.hpp"

namespace weir::gateway::upstream {

enum class read_outcome {
  data,     // bytes of the body
  end,      // the body is complete
  timeout,  // the deadline passed
  broken,   // framing or coding is at fault, or the connection ended too early: see why()
};

class reply_reader final {
 public:
  reply_reader(held_link link, const reply_start& start, std::shared_ptr<const origin> target);
  ~reply_reader();
  reply_reader(const reply_reader&) = delete;
  reply_reader& operator=(const reply_reader&) = delete;

  // `out` views what has come, all of it that was there at once; valid until the next call. `bytes_max`
  // bounds a decoded piece.
  task<read_outcome> next(time_point deadline, std::size_t bytes_max, std::string_view& out,
                          patience how = patience::until_deadline);

  // next() in its parts, for a caller that saves a coroutine: what is there already, or nothing; then wait()
  // and, where waited() of its outcome ends nothing, ready() again.
  std::optional<read_outcome> ready(std::size_t bytes_max, std::string_view& out);
  task<http::wait_outcome> wait(time_point deadline);
  // The same, but not longer than the target answers probes: timeout then, and frozen() says so.
  task<http::wait_outcome> wait_while_alive(time_point deadline);
  bool frozen() const noexcept { return frozen_; }
  std::optional<read_outcome> waited(http::wait_outcome outcome);

  void abandon() noexcept { keep_alive_ = false; }  // the connection shall serve no other request
  std::string_view why() const noexcept { return why_; }
  std::size_t buffered_bytes() const noexcept { return pieces_.capacity() + inflated_.capacity(); }

 private:
  read_outcome take_unread(std::size_t bytes_max, std::string_view& out);
  read_outcome decode(std::string_view piece, std::size_t bytes_max, std::string_view& out);
  read_outcome fail(std::string_view why) noexcept;
  void recycle();

  held_link link_;
  std::shared_ptr<const origin> target_;
  http::reply_body body_;
  std::optional<http::inflater> inflater_;
  std::string pieces_;  // chunks joined
  std::string inflated_;
  std::string_view why_;  // a literal
  bool keep_alive_;
  bool ended_ = false;
  bool frozen_ = false;
  std::size_t read_bytes_max_;
};

}  // namespace weir::gateway::upstream
