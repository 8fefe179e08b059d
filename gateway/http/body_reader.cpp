#include "gateway/http/body_reader.hpp"

#include <algorithm>
#include <array>

namespace weir::gateway::http {
namespace {

std::unexpected<error> too_large(std::size_t limit_bytes) {
  return fail(errc::body_too_large,
              "the request body exceeds the limit of " + std::to_string(limit_bytes) + " bytes");
}

}  // namespace

body_reader::body_reader(connection& link, const http_settings& settings, byte_budget& budget,
                         body_announcement announced)
    : link_(link),
      settings_(settings),
      hold_(budget),
      announced_(announced),
      left_bytes_(announced.content_length),
      complete_(announced.framing == body_framing::none) {}

task<result<std::string>> body_reader::read(std::size_t limit_bytes) {
  if (complete_) co_return std::string{};
  failed_ = true;  // until the end was seen; also when this task is cancelled within
  begin_ = clock::now();
  const bool sized = announced_.framing == body_framing::content_length;
  if (sized && left_bytes_ > limit_bytes) {
    failed_ = false;  // not a byte was taken: a small rest may still be drained
    co_return too_large(limit_bytes);
  }
  if (announced_.expect_continue && link_.unread().empty()) {
    const bool sent = co_await send_continue();
    if (!sent) co_return fail(errc::client_gone, "the client disconnected");
  }
  announced_.expect_continue = false;
  result<std::string> body = std::string{};
  if (sized) {
    body = co_await read_sized(limit_bytes);
  } else {
    body = co_await read_chunked(limit_bytes);
  }
  if (body) {
    complete_ = true;
    failed_ = false;
  }
  co_return body;
}

task<bool> body_reader::send_continue() {
  constexpr std::string_view k_continue = "HTTP/1.1 100 Continue\r\n\r\n";
  const std::array<asio::const_buffer, 1> buffers{asio::buffer(k_continue)};
  const bool sent = co_await link_.write(buffers);
  co_return sent;
}

task<result<std::string>> body_reader::read_sized(std::size_t limit_bytes) {
  std::string body;
  const std::uint64_t length = left_bytes_;
  while (left_bytes_ > 0) {
    const std::string_view unread = link_.unread();
    if (unread.empty()) {
      result<void> grown = co_await more();
      if (!grown) co_return std::unexpected(std::move(grown.error()));
      continue;
    }
    const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(left_bytes_, unread.size()));
    result<void> taken = append(body, unread.substr(0, bytes), std::min<std::uint64_t>(length, limit_bytes));
    if (!taken) co_return std::unexpected(std::move(taken.error()));
    link_.consume(bytes);
    left_bytes_ -= bytes;
  }
  co_return body;
}

task<result<std::string>> body_reader::read_chunked(std::size_t limit_bytes) {
  using kind = chunk_step::kind;
  std::string body;
  chunked_decoder decoder(limit_bytes);
  while (true) {
    const chunk_step step = decoder.decode(link_.unread());
    if (step.what == kind::data) {
      result<void> taken = append(body, step.data, limit_bytes);
      if (!taken) co_return std::unexpected(std::move(taken.error()));
    }
    link_.consume(step.consumed);
    if (step.what == kind::done) co_return body;
    if (step.what == kind::reject) {
      const auto [status, reason] = decoder.rejected();
      if (status == 413) co_return too_large(limit_bytes);
      const errc code = status == 431 ? errc::headers_too_large : errc::bad_framing;
      co_return fail(code, "malformed chunked body: " + std::string(reason));
    }
    if (step.what == kind::need_more) {
      result<void> grown = co_await more();
      if (!grown) co_return std::unexpected(std::move(grown.error()));
    }
  }
}

task<result<void>> body_reader::more() {
  const auto now = clock::now();
  const std::chrono::milliseconds earned(received_bytes_ * 1000 /
                                         std::max<std::size_t>(settings_.body_rate_min, 1));
  const auto deadline = std::min(now + settings_.body_idle, begin_ + settings_.body_grace + earned);
  const std::size_t before = link_.unread().size();
  const bool little = left_bytes_ > 0 && left_bytes_ <= k_idle_buffer_bytes;
  const std::size_t room = little ? k_idle_buffer_bytes : k_body_buffer_bytes;
  const wait_outcome outcome = co_await link_.wait_bytes(deadline, room);
  received_bytes_ += link_.unread().size() - before;
  switch (outcome) {
    case wait_outcome::bytes:
    case wait_outcome::interrupted:  // a drain lets running requests finish
      co_return result<void>{};
    case wait_outcome::timeout:
      co_return fail(errc::body_timeout, "the request body did not arrive in time");
    case wait_outcome::closed:
      break;
  }
  co_return fail(errc::client_gone, "the client disconnected");
}

// Grows by doubling, large bodies by more since each step copies all of it, but never beyond what the body
// can still become; the budget is charged before the memory is taken.
result<void> body_reader::append(std::string& body, std::string_view bytes, std::uint64_t final_bytes_max) {
  const std::size_t size = body.size() + bytes.size();
  if (size > body.capacity()) {
    const std::size_t factor = size >= k_large_body_bytes ? 4 : 2;
    const std::size_t grown = std::max({size, factor * body.capacity(), k_body_growth_bytes_min});
    const std::size_t capacity =
        std::max<std::size_t>(size, std::min<std::uint64_t>(grown, final_bytes_max)) + k_body_slack_bytes;
    if (!hold_.grow_to(capacity)) {
      return fail(errc::overloaded,
                  "the gateway holds as many request bodies as its memory allows; retry later");
    }
    body.reserve(capacity);
  }
  body.append(bytes);
  return {};
}

bool body_reader::drainable() const noexcept {
  return !complete_ && !failed_ && announced_.framing == body_framing::content_length &&
         !announced_.expect_continue && left_bytes_ <= k_drained_body_bytes_max;
}

task<bool> body_reader::drain() {
  failed_ = true;
  begin_ = clock::now();
  while (left_bytes_ > 0) {
    const std::size_t unread = link_.unread().size();
    if (unread == 0) {
      const result<void> grown = co_await more();
      if (!grown) co_return false;
      continue;
    }
    const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(left_bytes_, unread));
    link_.consume(bytes);
    left_bytes_ -= bytes;
  }
  failed_ = false;
  complete_ = true;
  co_return true;
}

}  // namespace weir::gateway::http
