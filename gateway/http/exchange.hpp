// One request and its response on a client connection, as a handler sees it: the validated head, a bounded
// body, and either a whole reply or a stream. The session behind it owns framing, keep-alive, deadlines and
// the disconnect watch.
//
// Invariants: the head passed the strict profile before any handler ran; a handler sends exactly one reply or
// stream (the session answers 500 where it sent none); auth and routing read this head only, never a trailer.
// Cancellation: when the client disconnects, the session cancels the handler's coroutine (total
// cancellation), so every await in it ends with operation_aborted within one loop turn; a handler catches
// nothing for that.
// Threads: one connection, one I/O thread; nothing here may be touched from another.
#pragma once

#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/verb.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/errc.hpp"
#include "gateway/task.hpp"

namespace weir::gateway::http {

struct request_head {
  boost::beast::http::verb method;
  std::string path;   // percent-decoding is not applied; without query
  std::string query;  // after '?', may be empty
  boost::beast::http::fields fields;
  bool has_body = false;  // content-length > 0 or chunked
};

struct peer_info {
  std::string address;  // numeric client address
  bool loopback = false;
  bool tls = false;
};

using header_list = std::vector<std::pair<std::string_view, std::string>>;

struct reply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  header_list headers;  // besides content-type, content-length, date, x-request-id, connection
};

class exchange {
 public:
  virtual ~exchange() = default;

  virtual const request_head& head() const noexcept = 0;
  virtual const peer_info& peer() const noexcept = 0;

  // The client's x-request-id where it is 1..128 characters of [A-Za-z0-9._-], else a fresh random one. Sent
  // on every answer.
  virtual std::string_view request_id() const noexcept = 0;

  // Whole body, after 100 Continue where the client waits for it. Fails with body_too_large, overloaded
  // (process-wide byte budget), body_timeout, bad_framing or headers_too_large; the budget is held until the
  // exchange ends. Call at most once.
  virtual task<result<std::string>> read_body(std::size_t limit_bytes) = 0;

  // A whole reply. An unread body is drained up to a small limit, else the connection closes after the reply.
  virtual task<result<void>> send(reply r) = 0;

  // A streamed reply: start, any number of writes (each flushed as its own chunk), then finish, perhaps with
  // the last bytes. The head goes out with the first of them. write fails
  // with client_gone when the peer went away or did not read for the write-idle limit. abort() ends the
  // stream without its last chunk, so that any HTTP client sees the failure, and closes the connection.
  virtual result<void> start_stream(int status, std::string_view content_type, header_list headers) = 0;
  // write_now does so without a coroutine where the client takes all at once; nothing where it did not: then
  // write_rest must follow, while the bytes stay as they are.
  task<result<void>> write(std::string_view bytes) {
    if (auto done = write_now(bytes)) co_return std::move(*done);
    result<void> sent = co_await write_rest();
    co_return sent;
  }
  virtual std::optional<result<void>> write_now(std::string_view bytes) = 0;
  virtual task<result<void>> write_rest() = 0;
  virtual task<result<void>> finish(std::string_view last_bytes = {}) = 0;
  virtual void abort() noexcept = 0;
  // Ends the exchange and its connection now, as a disconnect does: the handler is cancelled. The client
  // still learns why: by a reply where none began, by what last_words makes of it in a stream between two
  // writes.
  virtual void cut(error why) noexcept = 0;
  using last_words = std::string (*)(const error& why);
  virtual void on_cut(last_words words) noexcept = 0;
  virtual const error* cut_for() const noexcept = 0;  // null: it was not
  // The last event of a stream that cannot go on.
  virtual task<result<void>> write_error(last_words words, const error& why) {
    const std::string said = words(why);
    result<void> sent = co_await write(said);
    co_return sent;
  }

  virtual bool stream_started() const noexcept = 0;     // start_stream was called
  virtual int status_sent() const noexcept = 0;         // 0 until a head went out
  virtual std::size_t bytes_sent() const noexcept = 0;  // body bytes
};

// What a listener serves. One object serves all connections of all threads.
class dispatcher {
 public:
  virtual ~dispatcher() = default;
  virtual task<void> serve(exchange& ex) = 0;

  // Body of an error that the session itself answers (400, 408, 414, 431, 501, 505, ...): JSON in OpenAI's
  // error shape.
  virtual std::string error_body(int status, std::string_view message) const = 0;
  // The whole reply to a request that was cut before it was answered.
  virtual reply cut_reply(const exchange& ex, const error& why) const = 0;
};

}  // namespace weir::gateway::http
