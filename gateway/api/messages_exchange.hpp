// The exchange of a client that speaks Anthropic's messages API, in front of handlers that answer in the chat
// API: replies, streams and errors are translated on their way out, everything else passes. What a target
// said in the client's own API passes too, but for errors. One request, one thread; the outer exchange
// outlives it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gateway/http/exchange.hpp"
#include "gateway/observe/request_probe.hpp"
#include "gateway/upstream/dialect.hpp"

namespace weir::gateway::api {

// An error as these clients read it, with the headers that their SDK obeys.
http::reply messages_error_reply(const error& e, std::string_view request_id);

class messages_exchange final : public http::exchange {
 public:
  messages_exchange(http::exchange& outer, observe::request_probe& probe) : outer_(outer), probe_(probe) {}

  // As the client named it. Before anything but an error is sent.
  void set_model(std::string name) { model_ = std::move(name); }
  // For request_context.
  bool* said_as_asked() noexcept { return &said_as_asked_; }

  const http::request_head& head() const noexcept override { return outer_.head(); }
  const http::peer_info& peer() const noexcept override { return outer_.peer(); }
  std::string_view request_id() const noexcept override { return outer_.request_id(); }
  task<result<std::string>> read_body(std::size_t limit_bytes) override {
    return outer_.read_body(limit_bytes);
  }
  task<result<void>> send(http::reply r) override;
  result<void> start_stream(int status, std::string_view content_type, http::header_list headers) override;
  std::optional<result<void>> write_now(std::string_view bytes) override;
  task<result<void>> write_rest() override { return outer_.write_rest(); }
  task<result<void>> finish(std::string_view last_bytes) override;
  void abort() noexcept override { outer_.abort(); }
  void cut(error why) noexcept override { outer_.cut(std::move(why)); }
  void on_cut(last_words) noexcept override;
  const error* cut_for() const noexcept override { return outer_.cut_for(); }
  task<result<void>> write_error(last_words words, const error& why) override;
  bool stream_started() const noexcept override { return outer_.stream_started(); }
  int status_sent() const noexcept override { return outer_.status_sent(); }
  std::size_t bytes_sent() const noexcept override { return outer_.bytes_sent(); }

 private:
  http::exchange& outer_;
  observe::request_probe& probe_;
  std::string model_;
  bool said_as_asked_ = false;
  std::optional<upstream::event_translation> stream_;
  std::string last_;
};

}  // namespace weir::gateway::api
