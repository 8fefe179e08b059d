// The exchange of a session: one request's head, body and response on its connection.
// Lives within one turn of session::run; the connection's I/O thread only.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "gateway/http/body_reader.hpp"
#include "gateway/http/connection.hpp"
#include "gateway/http/exchange.hpp"
#include "gateway/http/response_head.hpp"
#include "gateway/http/session_context.hpp"

namespace weir::gateway::http {

class session_exchange final : public exchange {
 public:
  struct request {
    request_head head;
    body_announcement body;
    bool http_1_0 = false;
    bool keep_alive = true;  // the client allows it
  };

  // `draining` is read when a response head is written: a reply that starts during a drain says Connection:
  // close. `signal` cancels the handler's task when the client disconnects.
  session_exchange(connection& link, const session_context& context, const peer_info& peer, request req,
                   const bool& draining, asio::cancellation_signal& signal);

  const request_head& head() const noexcept override { return request_.head; }
  const peer_info& peer() const noexcept override { return peer_; }
  std::string_view request_id() const noexcept override { return request_id_; }
  task<result<std::string>> read_body(std::size_t limit_bytes) override;
  task<result<void>> send(reply r) override;
  result<void> start_stream(int status, std::string_view content_type, header_list headers) override;
  std::optional<result<void>> write_now(std::string_view bytes) override;
  task<result<void>> write_rest() override;
  task<result<void>> finish(std::string_view last_bytes) override;
  void abort() noexcept override;
  void cut(error why) noexcept override;
  void on_cut(last_words words) noexcept override { last_words_ = words; }
  const error* cut_for() const noexcept override { return cut_for_ ? &*cut_for_ : nullptr; }
  bool stream_started() const noexcept override { return stream_started_; }
  int status_sent() const noexcept override { return status_sent_; }
  std::size_t bytes_sent() const noexcept override { return bytes_sent_; }

  // After the handler: closes what it left open. True where the connection may carry a next request.
  task<bool> conclude();
  // After a handler that was cut: tells the client why.
  task<void> explain_cut();
  bool aborted() const noexcept { return phase_ == phase::aborted; }
  bool close_delimited() const noexcept { return stream_started_ && request_.http_1_0; }

 private:
  enum class phase : std::uint8_t {
    waiting,    // nothing sent; leaves by send, start_stream or abort
    streaming,  // leaves by finish or abort
    done,       // a whole response went out; final
    aborted,    // the response was cut short; final
  };

  response_head describe(int status, std::string_view content_type) const;
  void decide_keep_alive();
  bool bodiless() const noexcept;
  void add_size_line(std::size_t bytes);
  task<result<void>> put(std::string_view first, std::string_view second, std::string_view third);
  std::span<const asio::const_buffer> gather(std::string_view first, std::string_view second,
                                             std::string_view third);
  result<void> written(bool sent);

  connection& link_;
  const session_context& context_;
  const peer_info& peer_;
  request request_;
  std::string request_id_;
  body_reader body_;
  const bool& draining_;
  asio::cancellation_signal& signal_;
  phase phase_ = phase::waiting;
  bool body_asked_ = false;
  bool keep_alive_;
  bool stream_started_ = false;
  int status_sent_ = 0;
  std::size_t bytes_sent_ = 0;
  std::string lead_;  // a stream's head until it goes out, then the size line of a chunk
  std::size_t writing_bytes_ = 0;
  std::array<asio::const_buffer, 3> pieces_;
  std::optional<error> cut_for_;
  last_words last_words_ = nullptr;
  std::string joined_;  // a TLS record's worth of small pieces
};

}  // namespace weir::gateway::http
