#include "loadtest/client.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

#include "loadtest/event_splitter.hpp"
#include "loadtest/sequence_check.hpp"

namespace weir::loadtest {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using clock = std::chrono::steady_clock;

constexpr std::size_t k_block_bytes = 4 << 10;  // of each of thousands of streams

double seconds(clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

// Follows one stream of events and keeps the times.
class stream_watch {
 public:
  stream_watch(request_result& out, clock::time_point start, bool check_sequence,
               simdjson::dom::parser& parser)
      : out_(out), start_(start), check_sequence_(check_sequence), parser_(parser) {}

  void take(const std::string& data) {
    if (data == "[DONE]") {
      done_ = true;
      return;
    }
    simdjson::dom::element event;
    if (parser_.parse(data).get(event)) {
      out_.failure = "an event is not JSON";
      return;
    }
    std::string_view message;
    if (!event["error"]["message"].get(message)) out_.failure = "error event: " + std::string(message);
    std::int64_t reported = 0;
    if (!event["usage"]["completion_tokens"].get(reported)) out_.output_tokens = reported;
    if (!event["usage"]["prompt_tokens"].get(reported)) out_.prompt_tokens = reported;
    if (!event.at_pointer("/usage/prompt_tokens_details/cached_tokens").get(reported))
      out_.cached_tokens = reported;
    if (has_output(event)) note_token();
    if (check_sequence_ && !event.at_pointer("/choices/0/delta/content").get(message))
      sequence_.take(message);
  }

  // The stream has ended: what its tokens' numbers say becomes part of the result.
  void end() {
    if (!check_sequence_) return;
    out_.tokens_lost = sequence_.lost(out_.output_tokens);
    out_.tokens_reordered = sequence_.reordered();
    if (out_.failure.empty() && (out_.tokens_lost > 0 || out_.tokens_reordered > 0))
      out_.failure = "tokens are lost or out of order";
  }

  bool done() const noexcept { return done_; }

 private:
  static bool has_output(simdjson::dom::element event) {
    std::string_view text;
    simdjson::dom::element call;
    if (!event.at_pointer("/choices/0/delta/content").get(text) && !text.empty()) return true;
    if (!event.at_pointer("/choices/0/text").get(text) && !text.empty()) return true;
    return !event.at_pointer("/choices/0/delta/tool_calls/0").get(call);
  }

  void note_token() {
    const auto now = clock::now();
    if (token_count_++ == 0) {
      out_.first_token_s = seconds(now - start_);
    } else {
      out_.gaps_s.push_back(seconds(now - last_));
    }
    out_.output_tokens = std::max(out_.output_tokens, token_count_);
    last_ = now;
  }

  request_result& out_;
  clock::time_point start_;
  clock::time_point last_;
  std::int64_t token_count_ = 0;
  bool done_ = false;
  bool check_sequence_;
  sequence_check sequence_;
  simdjson::dom::parser& parser_;
};

http::request<http::string_body> make_request(const request_spec& spec) {
  http::request<http::string_body> request{http::verb::post, spec.path, 11};
  request.set(http::field::host, spec.host + ":" + spec.port);
  request.set(http::field::content_type, "application/json");
  request.set(http::field::user_agent, "weir-loadtest");
  if (!spec.api_key.empty()) request.set(http::field::authorization, "Bearer " + spec.api_key);
  request.keep_alive(false);
  request.body() = spec.body;
  request.prepare_payload();
  return request;
}

// Reads the answer to its end; what the server sent on an error is in `failure`.
asio::awaitable<void> read_stream(beast::tcp_stream& stream, request_result& out, stream_watch& watch) {
  beast::flat_buffer buffer;
  http::response_parser<http::buffer_body> parser;
  parser.body_limit(boost::none);
  co_await http::async_read_header(stream, buffer, parser, asio::use_awaitable);
  const auto status = parser.get().result_int();
  std::vector<char> block(k_block_bytes);
  std::vector<std::string> events;
  event_splitter splitter;
  while (!parser.is_done()) {
    parser.get().body().data = block.data();
    parser.get().body().size = block.size();
    boost::system::error_code ec;
    auto token = asio::redirect_error(asio::use_awaitable, ec);
    co_await http::async_read_some(stream, buffer, parser, token);
    if (ec && ec != http::error::need_buffer) throw boost::system::system_error(ec);
    const std::string_view bytes(block.data(), block.size() - parser.get().body().size);
    if (status != 200) {
      if (out.failure.empty()) out.failure = fmt::format("status {}: {}", status, bytes.substr(0, 200));
      continue;
    }
    events.clear();
    if (!splitter.push(bytes, events)) throw std::runtime_error("an event is too long");
    for (const auto& event : events) watch.take(event);
  }
  if (status == 200 && !watch.done() && out.failure.empty()) out.failure = "the stream ended without [DONE]";
}

// An event that told of a failure says more than how the connection then ended.
std::string explain(const boost::system::error_code& ec, const request_spec& spec) {
  if (ec == beast::error::timeout) return fmt::format("no whole answer within {} ms", spec.timeout.count());
  if (ec == http::error::partial_message) return "the connection ended within the answer";
  if (ec == http::error::end_of_stream) return "the connection ended before the answer";
  return ec.message();
}

}  // namespace

asio::awaitable<request_result> run_request(const request_spec& spec, simdjson::dom::parser& parser) {
  request_result out;
  const auto executor = co_await asio::this_coro::executor;
  const auto start = clock::now();
  stream_watch watch(out, start, spec.check_sequence, parser);
  try {
    asio::ip::tcp::resolver resolver(executor);
    const auto addresses = co_await resolver.async_resolve(spec.host, spec.port, asio::use_awaitable);
    beast::tcp_stream stream(executor);
    stream.expires_after(spec.timeout);
    co_await stream.async_connect(addresses, asio::use_awaitable);
    stream.socket().set_option(asio::ip::tcp::no_delay(true));
    const auto request = make_request(spec);
    co_await http::async_write(stream, request, asio::use_awaitable);
    co_await read_stream(stream, out, watch);
  } catch (const boost::system::system_error& e) {
    if (out.failure.empty()) out.failure = explain(e.code(), spec);
  } catch (const std::exception& e) {
    if (out.failure.empty()) out.failure = e.what();
  }
  watch.end();
  out.duration_s = seconds(clock::now() - start);
  out.ok = out.failure.empty();
  co_return out;
}

}  // namespace weir::loadtest
