#include "gateway/http/session_exchange.hpp"

#include <array>
#include <boost/beast/http/field.hpp>
#include <charconv>
#include <utility>

namespace weir::gateway::http {
namespace {

std::string choose_request_id(const request_head& head, thread_stamps& stamps) {
  const auto sent = head.fields["x-request-id"];
  const std::string_view id(sent.data(), sent.size());
  return is_request_id(id) ? std::string(id) : stamps.request_id();
}

std::unexpected<error> gone() {
  return fail(errc::client_gone, "the client disconnected");
}

}  // namespace

session_exchange::session_exchange(connection& link, const session_context& context, const peer_info& peer,
                                   request req, const bool& draining, asio::cancellation_signal& signal)
    : link_(link),
      context_(context),
      peer_(peer),
      request_(std::move(req)),
      request_id_(choose_request_id(request_.head, context.stamps)),
      body_(link, context.settings, context.budget, request_.body),
      draining_(draining),
      signal_(signal),
      keep_alive_(request_.keep_alive) {
  if (body_.complete()) link_.watch(signal_);
}

task<result<std::string>> session_exchange::read_body(std::size_t limit_bytes) {
  if (std::exchange(body_asked_, true)) co_return fail(errc::internal, "the body was read twice");
  result<std::string> body = co_await body_.read(limit_bytes);
  if (body) link_.watch(signal_);
  co_return body;
}

response_head session_exchange::describe(int status, std::string_view content_type) const {
  response_head out;
  out.status = status;
  out.content_type = content_type;
  out.request_id = request_id_;
  out.date = context_.stamps.date();
  out.http_1_0 = request_.http_1_0;
  out.close = !keep_alive_;
  if (!status_has_body(status)) out.body = response_head::body_kind::none;
  return out;
}

void session_exchange::decide_keep_alive() {
  if (draining_ || !(body_.complete() || body_.drainable())) keep_alive_ = false;
}

task<result<void>> session_exchange::send(reply r) {
  if (phase_ != phase::waiting) co_return fail(errc::internal, "a second response to one request");
  decide_keep_alive();
  response_head described = describe(r.status, r.content_type);
  described.content_length = r.body.size();
  const auto head = format_head(described, r.headers);
  if (!head) co_return fail(errc::internal, head.error());
  status_sent_ = r.status;
  const std::string_view body = bodiless() ? std::string_view{} : std::string_view(r.body);
  phase_ = phase::aborted;  // until all of it is out
  result<void> sent = co_await put(*head, body, {});
  if (sent) {
    phase_ = phase::done;
    bytes_sent_ = body.size();
  }
  co_return sent;
}

result<void> session_exchange::start_stream(int status, std::string_view content_type, header_list headers) {
  if (phase_ != phase::waiting) return fail(errc::internal, "a second response to one request");
  if (request_.http_1_0) keep_alive_ = false;
  decide_keep_alive();
  response_head described = describe(status, content_type);
  if (described.body == response_head::body_kind::sized) {
    described.body =
        request_.http_1_0 ? response_head::body_kind::to_close : response_head::body_kind::chunked;
  }
  auto head = format_head(described, headers);
  if (!head) return fail(errc::internal, head.error());
  lead_ = std::move(*head);
  phase_ = phase::streaming;
  stream_started_ = true;
  status_sent_ = status;
  return {};
}

bool session_exchange::bodiless() const noexcept {
  return request_.head.method == boost::beast::http::verb::head || !status_has_body(status_sent_);
}

void session_exchange::add_size_line(std::size_t bytes) {
  std::array<char, 16> size{};
  const auto [end, ec] = std::to_chars(size.data(), size.data() + size.size(), bytes, 16);
  lead_.append(size.data(), static_cast<std::size_t>(end - size.data())).append("\r\n");
}

std::optional<result<void>> session_exchange::write_now(std::string_view bytes) {
  if (phase_ != phase::streaming) return result<void>(fail(errc::internal, "a write outside a stream"));
  if (bytes.empty() || bodiless()) return result<void>{};
  if (!request_.http_1_0) add_size_line(bytes.size());
  writing_bytes_ = bytes.size();
  const auto done = link_.write_now(gather(lead_, bytes, request_.http_1_0 ? "" : "\r\n"));
  if (!done) return std::nullopt;
  return written(*done);
}

task<result<void>> session_exchange::write_rest() {
  const bool sent = co_await link_.write_rest();
  co_return written(sent);
}

result<void> session_exchange::written(bool sent) {
  lead_.clear();
  if (!sent) return gone();
  bytes_sent_ += writing_bytes_;
  return {};
}

task<result<void>> session_exchange::finish(std::string_view last_bytes) {
  if (phase_ != phase::streaming) co_return fail(errc::internal, "finish outside a stream");
  const bool chunked = !request_.http_1_0 && !bodiless();
  if (bodiless()) last_bytes = {};
  std::string_view trail;
  if (chunked && !last_bytes.empty()) {
    add_size_line(last_bytes.size());
    trail = "\r\n0\r\n\r\n";
  } else if (chunked) {
    trail = "0\r\n\r\n";
  }
  result<void> sent;
  if (lead_.size() + last_bytes.size() + trail.size() > 0) sent = co_await put(lead_, last_bytes, trail);
  lead_.clear();
  if (sent) {
    phase_ = phase::done;
    bytes_sent_ += last_bytes.size();
  }
  co_return sent;
}

void session_exchange::abort() noexcept {
  if (phase_ != phase::done) phase_ = phase::aborted;
}

task<result<void>> session_exchange::put(std::string_view first, std::string_view second,
                                         std::string_view third) {
  const auto buffers = gather(first, second, third);
  const bool sent = co_await link_.write(buffers);
  if (!sent) co_return gone();
  co_return result<void>{};
}

// Under TLS each buffer of a sequence would become a record and a send of its own.
std::span<const asio::const_buffer> session_exchange::gather(std::string_view first, std::string_view second,
                                                             std::string_view third) {
  const std::size_t total_bytes = first.size() + second.size() + third.size();
  if (link_.is_tls() && !second.empty() && total_bytes <= k_coalesced_bytes_max) {
    joined_.assign(first).append(second).append(third);
    pieces_[0] = asio::buffer(joined_);
    return std::span(pieces_).first(1);
  }
  pieces_ = {asio::buffer(first), asio::buffer(second), asio::buffer(third)};
  return pieces_;
}

void session_exchange::cut(error why) noexcept {
  if (!cut_for_) cut_for_.emplace(std::move(why));
  signal_.emit(asio::cancellation_type::all);
}

task<void> session_exchange::explain_cut() {
  if (link_.broken() || !cut_for_) co_return;
  keep_alive_ = false;
  if (phase_ == phase::waiting) {
    reply r = context_.handler.cut_reply(*this, *cut_for_);
    co_await send(std::move(r));
  } else if (phase_ == phase::streaming && last_words_ != nullptr) {
    const std::string words = last_words_(*cut_for_);
    co_await write(words);
    phase_ = phase::aborted;
  }
}

task<bool> session_exchange::conclude() {
  if (phase_ == phase::waiting && !link_.gone()) {
    keep_alive_ = false;
    reply r;
    r.status = 500;
    r.body = context_.handler.error_body(500, "the gateway failed to answer this request");
    co_await send(std::move(r));
  }
  if (phase_ == phase::streaming) phase_ = phase::aborted;
  if (phase_ != phase::done || !keep_alive_ || link_.broken() || link_.peer_closed()) co_return false;
  if (body_.complete()) co_return true;
  const bool drained = co_await body_.drain();
  co_return drained;
}

}  // namespace weir::gateway::http
